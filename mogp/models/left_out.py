r"""Each target predicted by the others, from the posterior at hand: nothing is fitted again.

At its optimum a variational posterior is the prior times one Gaussian *site* for each row,

$$q(u) \propto p(u) \prod_n \exp\big(g_n^\top f_n - \tfrac12 (f_n - m_n)^\top B_n (f_n - m_n)\big),
  \qquad g_n = \frac{\partial E_n}{\partial m_n}, \quad
  B_n = -2\,\mathrm{diag}\frac{\partial E_n}{\partial v_n},$$

with $m_n, v_n$ the marginals of the row's functions under $q$ and $E_n$ its expected log-likelihood
there. A row is left out by taking its site away. Let $W_n$ be the part of the covariance of $f_n$
that was learnt from data, and $R_n$ the rest, which $u$ does not tell ($V_n = W_n + R_n$):

$$W_n^c = (W_n^{-1} - B_n)^{-1}, \qquad m_n^c = m_n - W_n^c\, g_n, \qquad V_n^c = W_n^c + R_n.$$

For exact Gaussian models this is exactly the prediction from all other targets (hyper-parameters,
inducing inputs and variational parameters of the others stay as they are). For other likelihoods it
is to first order what training without the row would give. Where $W_n^{-1} - B_n$ is not positive,
the posterior is not at its optimum there, and the row cannot be left out.

Classes whose functions depend on each other are left out by weights instead: draws of the functions
at a row weigh $1/p(y_n \mid f)$, Pareto-smoothed, and rows whose $\hat k$ exceeds 0.7 count as not
left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from scipy.stats import norm

from mogp.data import Array, MultiOutputData
from mogp.data.batches import gather_rows
from mogp.likelihoods import ReadsFunctions, Targets, conditional, sample_y
from mogp.likelihoods.groups import Group
from mogp.metrics.pareto import TRUSTED, pareto_smoothed
from mogp.models.answers import is_gaussian
from mogp.models.exact.base import ExactMOGP
from mogp.models.labels import LabelMOGP
from mogp.models.latent_likelihood import on_rows
from mogp.models.latent_predictions import PredictsLatents
from mogp.models.row_effect import RowEffectMOGP
from mogp.models.row_shapes import dense, reads_jointly, tiled
from mogp.models.sparse import SparseMOGP
from mogp.modules import with_tensors
from mogp.posteriors import Full, JointGrid
from mogp.priors import Marginals, View, independent_functions

_NUMBERS_AT_ONCE = 4_000_000


class LeftOut(NamedTuple):
    """Targets of one output, each as the others predict it.

    Attributes:
        log_density: `[n]`, in the units of the data; NaN where a row could not be left out.
        rank: `[n]`, the probability that the prediction gives to values below the target, and a
            random share of that of the target itself (randomised PIT): uniform if predictions are
            calibrated. None for classes, and for rows of several targets.
        probability: `[n, C]` of classes; None for others.

    >>> import numpy as np
    >>> LeftOut(np.array([-1.0, np.nan]), np.array([0.5, np.nan]), None).share_missing
    0.5
    """

    log_density: Array
    rank: Array | None
    probability: Array | None

    @property
    def share_missing(self) -> float:
        """Share of rows that could not be left out."""
        return float(np.mean(np.isnan(self.log_density))) if len(self.log_density) else 0.0


class _Rows(NamedTuple):
    """What is known of the functions `[n, J]` at the rows of an output, and of their likelihood."""

    mean: tf.Tensor
    learnt: tf.Tensor
    rest: tf.Tensor
    expected: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    density: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def left_out(
    model: Any, data: MultiOutputData, output: int, samples: int = 1000, seed: int = 0
) -> LeftOut | None:
    """Each target of an output as all the others that the model was trained on predict it.

    Args:
        model: a fitted model.
        data: it was trained on, or some of them.
        output: which.
        samples: draws behind ranks and weights.
        seed: of the draws.

    Returns:
        None for models and outputs for which it is not known how: chains, labels, noise that
        outputs share at a row.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import ExactLMC
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.sin(6 * x))
    >>> found = left_out(ExactLMC(data), data, 0)
    >>> found.log_density.shape, bool(np.all((found.rank > 0) & (found.rank < 1)))
    ((8,), True)
    """
    whole = model.aligned(data)
    own = model.scaled(whole).outputs[output]
    if len(own) == 0:
        return None
    shown, rows = model.observed_at(whole)
    at = gather_rows(model.scaled_inputs(shown), rows[output])
    found = _of(model, at, own, output, (samples, seed))
    if found is None:
        return None
    jacobian = model.log_jacobian(whole)[output]
    return found._replace(log_density=found.log_density - jacobian)


@singledispatch
def _of(model: Any, at: Any, own: Any, d: int, draws: tuple[int, int]) -> LeftOut | None:
    return None


@_of.register(RowEffectMOGP)
@_of.register(LabelMOGP)
def _(model: Any, at: Any, own: Any, d: int, draws: tuple[int, int]) -> LeftOut | None:
    return None


@_of.register
def _(model: SparseMOGP, at: Any, own: Any, d: int, draws: tuple[int, int]) -> LeftOut | None:
    likelihood = model.likelihood.likelihoods[d]
    if reads_jointly(likelihood):
        return _by_weights(model, at, own, d, draws)
    functions = model.likelihood.functions(d)
    mean, var = model.noiseless(at).marginals(functions, full_output_cov=True)
    rest = _untold(model, at, functions)
    Y = tf.constant(own.Y, mean.dtype)
    reads = Group((d,), (likelihood,)).reads_inputs
    X = dense(at) if reads else tf.zeros([at.shape[0], 0], mean.dtype)
    if isinstance(likelihood, ReadsFunctions):
        targets = Targets(Y, tf.constant(own.observed), tf.range(len(own)))

        def view(m: tf.Tensor, v: tf.Tensor) -> View:
            return View(independent_functions(Marginals(m, v)), 0, len(functions), None)

        parts = _Rows(
            mean,
            var - rest,
            rest,
            lambda m, v: likelihood.expectations(view(m, v), targets),
            lambda m, v: likelihood.log_density(view(m, v), targets),
        )
        return LeftOut(_without(parts)[2], None, None)
    parts = _Rows(
        mean,
        var - rest,
        rest,
        lambda m, v: likelihood.variational_expectations(X, m, v, Y),
        lambda m, v: likelihood.predict_log_density(X, m, v, Y),
    )
    m, v, density = _without(parts)
    moments = likelihood.predict_mean_and_var(X, m, v)
    return _told(likelihood, at, own, (m, v), moments, density, draws)


@_of.register
def _(model: PredictsLatents, at: Any, own: Any, d: int, draws: tuple[int, int]) -> LeftOut | None:
    root = "q_sqrt" if isinstance(model.posterior, JointGrid) else "q_sqrt_x"
    none = tf.zeros_like(getattr(model.posterior, root))
    certain = with_tensors(model, {f".posterior.{root}": none})
    mean, var = model._predict_f(at, [d])
    rest = tf.minimum(certain._predict_f(at, [d]).var, var)
    Y = tf.constant(own.Y[:, 0], mean.dtype)[None]
    likelihood = model._of(tf.constant([d]))[1]

    def rule(name: str, *Y: tf.Tensor) -> Callable[[tf.Tensor, tf.Tensor], Any]:
        return lambda m, v: on_rows(
            likelihood, name, Marginals(tf.transpose(m), tf.transpose(v)), *Y
        )

    def of_rows(name: str) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
        return lambda m, v: rule(name, Y)(m, v)[0]

    parts = _Rows(
        mean,
        (var - rest)[..., None],
        rest[..., None],
        of_rows("variational_expectations"),
        of_rows("predict_log_density"),
    )
    m, v, density = _without(parts)
    moments = [tf.transpose(a) for a in rule("predict_mean_and_var")(m, v)]
    return _told(likelihood, at, own, (m, v), moments, density, draws)


@_of.register
def _(model: ExactMOGP, at: Any, own: Any, d: int, draws: tuple[int, int]) -> LeftOut | None:
    if getattr(model, "effect", None) is not None:
        return None
    mean, var = model._marginals(at, [d])
    noise, y = model._noise([d])[0, 0], tf.constant(own.Y, mean.dtype)

    def density(m: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        total = v + noise
        return -0.5 * (tf.math.log(2 * np.pi * total) + (y - m) ** 2 / total)[:, 0]

    parts = _Rows(
        mean,
        var[..., None],
        tf.zeros_like(var)[..., None],
        lambda m, v: -0.5 * ((y - m) ** 2 + v)[:, 0] / noise,
        density,
    )
    m, v, log_p = _without(parts)
    z = (y - m) / tf.sqrt(v + noise)
    return LeftOut(np.asarray(log_p), norm.cdf(np.asarray(z))[:, 0], None)


def _untold(model: SparseMOGP, X: Any, functions: range) -> tf.Tensor:
    """Covariance `[n, J, J]` of functions given the inducing variables."""
    certain = Full(whiten=True)
    blocks, copies = model.prior.blocks(model.inducing)
    certain.build(blocks, copies, model.inducing.num_inducing)
    certain.q_sqrt.assign(tf.zeros_like(certain.q_sqrt))
    factors = certain.factorise(model.inducing.Kuu(model.prior.kernels))
    f = model.prior.condition(X, model.inducing, certain, factors)
    return f.marginals(functions, full_output_cov=True).var


def _without(rows: _Rows) -> tuple[tf.Tensor, tf.Tensor, Array]:
    """Mean and variance `[n, J]` of functions without their row's site; NaN where improper."""
    mean = tf.identity(rows.mean)
    var = tf.linalg.diag_part(rows.learnt + rows.rest)
    with tf.GradientTape() as tape:
        tape.watch([mean, var])
        expected = tf.reduce_sum(rows.expected(mean, var))
    slope, half = tape.gradient(
        expected, [mean, var], unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    size, axes = tf.linalg.eigh(rows.learnt)
    root = axes * tf.sqrt(tf.nn.relu(size))[:, None]
    taken = tf.linalg.matmul(root, -2 * half[..., None] * root, transpose_a=True)
    kept, turn = tf.linalg.eigh(tf.eye(taken.shape[-1], dtype=taken.dtype) - taken)
    proper = kept[:, 0] > 1e-9
    root = tf.linalg.matmul(root, turn / tf.sqrt(tf.maximum(kept, 1e-9))[:, None])
    learnt = tf.linalg.matmul(root, root, transpose_b=True)
    m = mean - tf.linalg.matvec(learnt, slope)
    v = tf.linalg.diag_part(learnt + rows.rest)
    density = np.where(proper, rows.density(m, v), np.nan)
    return m, v, density


def _told(
    likelihood: Any,
    at: Any,
    own: Any,
    f: tuple[tf.Tensor, tf.Tensor],
    moments: Any,
    density: Array,
    draws: tuple[int, int],
) -> LeftOut:
    """Ranks, or probabilities of classes, from predictions of functions `[n, J]`."""
    mean, var = (np.asarray(a) for a in moments)
    unknown = np.isnan(density)
    if mean.shape[1] > 1:
        return LeftOut(density, None, np.where(unknown[:, None], np.nan, mean))
    if isinstance(likelihood, gpflow.likelihoods.Bernoulli) or _yes_or_no(likelihood):
        two = np.concatenate([1 - mean, mean], 1)
        return LeftOut(density, None, np.where(unknown[:, None], np.nan, two))
    if is_gaussian(likelihood):
        rank = norm.cdf((own.Y - mean) / np.sqrt(var))[:, 0]
    else:
        samples, seed = draws
        m, v = f
        noise = tf.random.stateless_normal([samples, *m.shape], [seed, 1], dtype=m.dtype)
        F = m + tf.sqrt(v) * noise
        y = np.asarray(sample_y(likelihood, F, [seed, 2], tiled(at, samples)))[..., 0]
        rank = ranks(own.Y[:, 0], y, seed)
    return LeftOut(density, np.where(unknown, np.nan, rank), None)


def _yes_or_no(likelihood: Any) -> bool:
    return getattr(likelihood, "function_labels", None) == ("logit",)


def ranks(y: Array, draws: Array, seed: int = 0) -> Array:
    """Randomised rank of each target among draws of it, strictly between 0 and 1, `[n]`.

    Args:
        y: `[n]` targets.
        draws: `[S, n]`.
        seed: of the random share that ties get.

    >>> ranks(np.array([5.0, -1.0]), np.arange(9.0)[:, None].repeat(2, 1)).round(0).tolist()
    [1.0, 0.0]
    """
    share = np.random.default_rng(seed).uniform(size=len(y))
    below, equal = (draws < y).sum(0), (draws == y).sum(0)
    return np.asarray((below + share * (equal + 1)) / (len(draws) + 1))


def _by_weights(
    model: SparseMOGP, at: Any, own: Any, d: int, draws: tuple[int, int]
) -> LeftOut | None:
    """Classes, by Pareto-smoothed weights of draws of their functions."""
    likelihood, functions = model.likelihood.likelihoods[d], model.likelihood.functions(d)
    if own.Y.shape[1] != 1 or not isinstance(likelihood, gpflow.likelihoods.Likelihood):
        return None
    samples, seed = draws
    step = max(1, _NUMBERS_AT_ONCE // (samples * len(functions)))
    parts = []
    for start in range(0, len(own), step):
        part = np.arange(start, min(start + step, len(own)))
        f = model.noiseless(gather_rows(at, part))
        shape = [samples, len(part), f.num_latents]
        F = f.points(
            functions, tf.random.stateless_normal(shape, [seed, start + 1], dtype=at.dtype)
        )
        log_p = np.asarray(conditional(likelihood, F).logits_parameter())
        log_p = log_p - np.logaddexp.reduce(log_p, -1)[..., None]
        label = own.Y[part, 0].astype(int)
        seen = np.take_along_axis(log_p, label[None, :, None], -1)[..., 0]
        weights, k = pareto_smoothed(-seen)
        parts.append((*_weighted(weights, seen, log_p), k))
    density, probability, k = (np.concatenate(same) for same in zip(*parts, strict=True))
    unknown = k > TRUSTED
    return LeftOut(
        np.where(unknown, np.nan, density), None, np.where(unknown[:, None], np.nan, probability)
    )


def _weighted(weights: Array, seen: Array, log_p: Array) -> tuple[Array, Array]:
    density = np.logaddexp.reduce(weights + seen, axis=0)
    return density, np.einsum("sn,snc->nc", np.exp(weights), np.exp(log_p))
