"""Outputs that were not there when the model was trained: find their latent variables from a few
points.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mogp.data import Array, MultiOutputData, Scaling
from mogp.data.padded import PaddedBatch
from mogp.errors import UnsupportedError
from mogp.models.latent import LatentMOGP
from mogp.models.latent_likelihood import by_output, with_values
from mogp.optimizers.line_search import LineSearch

_START_VARIANCE = 0.1


def add_outputs(
    model: LatentMOGP,
    data: MultiOutputData,
    *,
    noise: npt.ArrayLike | None = None,
    candidates: int = 200,
    restarts: int = 5,
    steps: int = 200,
    seed: int = 0,
) -> LatentMOGP:
    r"""A model with further outputs, known from a few points each; nothing that was learned
    changes.

    The latent variable of a new output is inferred by maximising its own part of the bound,
    $\mathcal F_d - \mathrm{KL}[q(h_d)\|p(h_d)]$, over $\mu_d$ and $s_d$: the best `restarts` of
    `candidates` start values (outputs that are known, and draws from the prior) are optimised with
    L-BFGS, and the best is kept.

    Args:
        model: trained.
        data: the new outputs only, under names of their own; replicas are crossed with outputs.
        noise: noise variances of the new outputs (of scaled targets), where targets are Gaussian
            and outputs differ in noise; the median of those known if None, as a few points hardly
            tell. Their units are the median of those known, too.
        candidates: start values that are looked at.
        restarts: start values that are optimised.
        steps: iterations of L-BFGS.
        seed: of the draws.

    Returns:
        A model of the known outputs and, after them, the new ones.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import add_outputs, hmogp_lv
    >>> x = np.arange(4.0)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))
    >>> model = hmogp_lv(data, inducing=2, latent_inducing=2, start="random")
    >>> new = MultiOutputData.from_arrays([0.5, 1.5], [0.5, 1.0], names=["new"])
    >>> add_outputs(model, new, candidates=4, restarts=1, steps=2).names
    ('output 0', 'output 1', 'new')
    """
    if data.nested:
        raise UnsupportedError(
            "the replicas of the new outputs are nested in them, so that they are no replicas of"
            " the outputs the model knows. Give replicas that are crossed with outputs"
            " (nested=False), or train a new model on all outputs: hmogp_lv(data)."
        )
    taken = sorted(set(data.names) & set(model.names))
    if taken:
        raise ValueError(
            f"{', '.join(map(repr, taken[:3]))} is an output already; give new ones other names."
        )
    if min(candidates, restarts, steps) < 1:
        raise ValueError(
            f"candidates={candidates}, restarts={restarts}, steps={steps}; all must be at least 1."
        )
    D, Q, rng = data.num_outputs, model.latent_dim, np.random.default_rng(seed)
    level, units = _new_values(model, D, noise), _new_units(model.scaling, D)
    likelihood = with_values(model.likelihood, level)
    alone = model.with_outputs(data.names, np.zeros((D, Q)), np.ones((D, Q)), likelihood, units)
    alone.check(data)
    known = model.latent_mean.numpy()
    known = known[rng.permutation(len(known))[: (candidates + 1) // 2]]
    starts = np.concatenate([known, rng.standard_normal((candidates - len(known), Q))])
    whole = alone.batches(data)(0)

    first, _ = _scores(
        _trial(model, np.tile(starts, (D, 1, 1)), level), _repeated(whole, len(starts)), D
    )
    best = np.argsort(-first, axis=1)[:, :restarts]
    trial, batch = _trial(model, starts[best], level), _repeated(whole, best.shape[1])
    LineSearch().minimize(
        lambda: -tf.reduce_sum(_value(trial, batch)),
        [trial.latent_mean.unconstrained_variable, trial.latent_var.unconstrained_variable],
        options={"maxiter": steps},
    )
    _, kept = _scores(trial, batch, D)
    return model.with_outputs(
        [*model.names, *data.names],
        np.concatenate([model.latent_mean.numpy(), trial.latent_mean.numpy()[kept]]),
        np.concatenate([model.latent_var.numpy(), trial.latent_var.numpy()[kept]]),
        with_values(
            model.likelihood,
            {
                name: np.concatenate([known.numpy(), level[name]])
                for name, known in by_output(model.likelihood).items()
            },
        ),
        None if model.scaling is None or units is None else model.scaling.joined(units),
    )


def _new_units(known: Scaling | None, outputs: int) -> Scaling | None:
    """Units of new outputs: in the middle of those known, as a few points hardly tell."""
    if known is None:
        return None
    location, scale = (np.full(outputs, np.median(a)) for a in (known.location, known.scale))
    return replace(known, location=location, scale=scale)


def _new_values(
    model: LatentMOGP, outputs: int, noise: npt.ArrayLike | None
) -> dict[str, npt.NDArray[np.float64]]:
    """Values for the new outputs of those parameters of the likelihood that differ by output."""
    values = {name: np.median(p.numpy()) for name, p in by_output(model.likelihood).items()}
    if noise is not None:
        if "variance" not in values:
            raise ValueError(
                f"noise={noise!r} was given, but no output has noise of its own: all share the"
                f" {type(model.likelihood).__name__} likelihood of the model. Leave noise out."
            )
        values["variance"] = np.asarray(noise, float)
    return {name: np.broadcast_to(value, (outputs,)) for name, value in values.items()}


def _trial(
    model: LatentMOGP, means: Array, level: dict[str, npt.NDArray[np.float64]]
) -> LatentMOGP:
    """A model of the new outputs alone, each as often as it has start values `[D, S, Q]`."""
    D, S, Q = means.shape
    names = [f"{d}, start {s}" for d in range(D) for s in range(S)]
    return model.with_outputs(
        names,
        means.reshape(-1, Q),
        np.full((D * S, Q), _START_VARIANCE),
        with_values(model.likelihood, {name: np.repeat(v, S) for name, v in level.items()}),
    )


def _repeated(batch: PaddedBatch, times: int) -> PaddedBatch:
    rows, weight, Y = (
        None if a is None else tf.repeat(a, times, 0) for a in (batch.rows, batch.weight, batch.Y)
    )
    return PaddedBatch(
        batch.X, tf.range(tf.shape(Y)[0], dtype=tf.int64), rows, Y, weight, batch.scale
    )


def _value(model: LatentMOGP, batch: PaddedBatch) -> tf.Tensor:
    return model.data_terms(batch) - model.kl_latent()


def _scores(model: LatentMOGP, batch: PaddedBatch, outputs: int) -> tuple[Array, Array]:
    """The part of the bound of each start of each output, `[D, S]`, and where among all the best of
    each output is.
    """
    values = _value(model, batch).numpy().reshape(outputs, -1)
    if not np.isfinite(values).any(axis=1).all():
        raise ValueError("the bound of a new output is not finite: check the scale of its targets.")
    values = np.where(np.isfinite(values), values, -np.inf)
    return values, np.arange(outputs) * values.shape[1] + values.argmax(axis=1)
