"""Has the objective stopped rising, or fallen?"""

from __future__ import annotations

import numpy as np

from mogp.data import Array

BLOCK = 50
"""Steps between two states that may be gone back to."""
_RATED = 10


def convergence(elbo: Array, deterministic: bool) -> tuple[bool | None, list[str]]:
    r"""Compare the last fifth of the steps with the fifth before: converged if the mean rose by
    less than its noise,

    two standard errors of the difference, or by less than a thousandth of the whole rise, and did
    not fall by more than twice the noise and a hundredth of the whole rise.
    """
    fifth = len(elbo) // 5
    if fifth < (2 if deterministic else 10):
        return None, []
    before, last = elbo[-2 * fifth : -fifth], elbo[-fifth:]
    rise = float(last.mean() - before.mean())
    noise = 2 * float(np.sqrt(last.var() / fifth + before.var() / fifth))
    whole = float(last.mean() - elbo[:fifth].mean())
    still = max(noise * (not deterministic), 1e-3 * abs(whole), 1e-9 * abs(float(last.mean())))
    if -max(2 * noise, 1e-2 * abs(whole), still) <= rise <= still:
        return True, []
    if rise < 0:
        return False, [
            f"The mean ELBO fell by {-rise:.3g} nats over the last {fifth} steps: train with"
            " smaller steps."
        ]
    return False, [
        f"The mean ELBO still rose by {rise:.3g} nats over the last {fifth} steps: train longer, or"
        " with larger steps."
    ]


def no_better(elbo: Array, window: int, patience: int) -> bool:
    """Whether the mean of a window of steps has not risen for `patience` steps."""
    whole = len(elbo) // window
    if len(elbo) % window or whole < 2:
        return False
    means = elbo[: whole * window].reshape(whole, window).mean(1)
    waited = (whole - 1 - int(np.argmax(means))) * window
    return waited >= patience


def best_state(elbo: Array) -> int:
    """The number of the block at whose start the model was best, by the ten steps after it."""
    return int(np.argmax(_ratings(elbo))) if len(elbo) >= _RATED else -1


def far_below_best(elbo: Array, value: float) -> bool:
    """Whether an objective of `value` is far below that of the best state.

    Far is more than the objective had risen until there, more than ten times the distance of its
    quartiles there, and more than a tenth of its size. With less than ten steps there is no
    telling.
    """
    if len(elbo) < _RATED:
        return False
    ratings, number = _ratings(elbo), best_state(elbo)
    best, (low, high) = ratings[number], np.quantile(_after(elbo, number), [0.25, 0.75])
    far = max(best - ratings[0], 10 * (high - low), 0.1 * abs(best))
    return bool(value < best - far)


def diverged(elbo: Array) -> bool:
    """Whether the medians of the last two blocks are far below the best state."""
    last = [elbo[-2 * BLOCK : -BLOCK], elbo[-BLOCK:]]
    return len(elbo) > 2 * BLOCK and all(far_below_best(elbo, float(np.median(b))) for b in last)


def _ratings(elbo: Array) -> Array:
    """Of the states at the starts of blocks: medians over the ten steps after them."""
    blocks = range((len(elbo) - _RATED) // BLOCK + 1)
    return np.array([np.median(_after(elbo, number)) for number in blocks])


def _after(elbo: Array, number: int) -> Array:
    return elbo[BLOCK * number :][:_RATED]
