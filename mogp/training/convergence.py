"""Has the objective stopped rising?"""

from __future__ import annotations

import numpy as np

from mogp.data import Array


def convergence(elbo: Array, deterministic: bool) -> tuple[bool | None, list[str]]:
    r"""Compare the last fifth of the steps with the fifth before: converged if the mean rose by
    less than its noise,

    two standard errors of the difference, or by less than a thousandth of the whole rise.
    """
    fifth = len(elbo) // 5
    if fifth < (2 if deterministic else 10):
        return None, []
    before, last = elbo[-2 * fifth : -fifth], elbo[-fifth:]
    rise = float(last.mean() - before.mean())
    noise = 2 * float(np.sqrt(last.var() / fifth + before.var() / fifth))
    whole = float(last.mean() - elbo[:fifth].mean())
    if rise <= max(noise * (not deterministic), 1e-3 * abs(whole), 1e-9 * abs(float(last.mean()))):
        return True, []
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
