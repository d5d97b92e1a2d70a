"""Families that mix latent GPs: LMC with any likelihood, chained GPs, classes, labels, annotators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from gpflow.kernels import Kernel, Matern52
from scipy.special import expit, softmax

from calibration.drawn import INPUTS, Array, Family, Found, Rng, draw, in_gap, matern52, places, standardised, train
from calibration.mends import between_as_noise
from mogp import LabelData, MultiOutputData
from mogp.inducing import InducingPoints
from mogp.likelihoods import (
    AnnotatedClasses,
    AnnotatedValues,
    AugmentReduce,
    Bernoulli,
    BernoulliLabels,
    Gaussian,
    HeteroscedasticGaussian,
    OneVsEach,
    Poisson,
)
from mogp.models import AnnotatedMOGP, ExactLMC, LabelMOGP, OneVsEachMOGP, SparseMOGP
from mogp.posteriors import Full, Joint, Parsimonious
from mogp.priors import LMC, Independent

NOISE = np.array([0.02, 0.05, 0.1])
FEW = np.linspace(0, 1, 10)[:, None]
"""Inducing inputs of the sparse setting; otherwise they are all inputs."""


@dataclass(frozen=True)
class Mixture:
    """A prior of functions f = W u + b, targets that read them, and a model of both.

    Attributes:
        W: `[J, L]`.
        lengthscales: of the latent GPs, Matérn-5/2, `L` of them.
        draw: data and model from the values of the functions at all inputs, `[N, J]`.
        bias: `[J]`.
        fit: puts in the posterior, and returns by how much its last step raised the bound.
        contrast: judge the difference of two functions in place of one.
        first: away from observations judge this function; any if None.
    """

    W: Array
    lengthscales: Sequence[float]
    draw: Callable[[Mixture, Array, Rng], tuple[Any, Any]]
    bias: Array | float = 0.0
    fit: Callable[[Any, Any], float] = train
    posterior: Callable[[], Any] = Full
    Z: Array = field(default_factory=lambda: INPUTS)
    contrast: bool = False
    first: int | None = None

    @property
    def kernels(self) -> list[Kernel]:
        """New ones, one for each latent GP."""
        return [Matern52(lengthscales=length) for length in self.lengthscales]

    def prior(self) -> LMC:
        """That functions are drawn from."""
        J = len(self.W)
        return LMC(self.kernels, functions=J, W=self.W, bias=np.broadcast_to(self.bias, (J,)))

    def sparse(self, data: MultiOutputData, likelihoods: Sequence[Any]) -> SparseMOGP:
        """The model with likelihoods for each output."""
        return SparseMOGP(self.prior(), InducingPoints(self.Z), likelihoods, self.posterior(), data.schema)

    def run(self, rng: Rng) -> Found:
        """Draw a data set, find the posterior, and see where the drawn functions lie under it."""
        new = np.array(places(rng))[:, None]
        both = np.concatenate([INPUTS, new])
        u = np.stack([draw(matern52(both, length), rng) for length in self.lengthscales], axis=1)
        f = u @ self.W.T + self.bias
        data, model = self.draw(self, f[:-2], rng)
        rise = self.fit(model, data)
        weights = np.stack([self._weights(place, rng) for place in range(2)])
        mean, var = self._moments(model, new, weights)
        near, away = (standardised(weights[i] @ f[i - 2], mean[i], var[i]) for i in range(2))
        return Found(near, away, rise)

    def _weights(self, place: int, rng: Rng) -> Array:
        """Weights `[J]` of what is judged: a function, or the difference of two."""
        J = len(self.W)
        one, other = rng.permutation(J)[:2]
        if place == 1 and self.first is not None:
            one = self.first
        return np.eye(J)[one] - (np.eye(J)[other] if self.contrast else 0)

    def _moments(self, model: Any, new: Array, weights: Array) -> tuple[Array, Array]:
        """Posterior means and variances of weighted sums of functions, `[2]`."""
        f = model.predict_f(new, full_output_cov=True) if self.contrast else model.predict_f(new)
        mean, var = (np.asarray(a) for a in f)
        cov = var if self.contrast else np.einsum("nj,jk->njk", var, np.eye(len(self.W)))
        return np.einsum("nj,nj->n", weights, mean), np.einsum("nj,njk,nk->n", weights, cov, weights)


# --- posteriors


def joint(model: Any, data: Any) -> float:
    """The best Gaussian, in closed form."""
    model.joint_posterior(data)
    return 0.0


def factorised(model: Any, data: Any) -> float:
    """The best product over latent GPs, in closed form, and a step of training that should not raise its bound."""
    model.joint_posterior(data)
    model.posterior = model.posterior.factorised(model.inducing.Kuu(model.prior.kernels))
    return train(model, data, steps=2, gamma=0.1)


def mended(model: Any, data: Any) -> float:
    """See `mends`."""
    between_as_noise(model, data)
    return 0.0


def nothing(model: Any, data: Any) -> float:
    """An exact model has its posterior."""
    return 0.0


# --- targets


def several(targets: Callable[[Array, Rng], Array], kinds: Callable[[], list[Any]], size: int = 1) -> Any:
    """Outputs of `size` functions each, the first of them not observed in the gap."""

    def made(family: Mixture, f: Array, rng: Rng) -> tuple[Any, Any]:
        own = [targets(f[:, j : j + size], rng) for j in range(0, f.shape[1], size)]
        Y = np.concatenate(own, axis=1).astype(float)
        Y[in_gap(), 0] = np.nan
        data = MultiOutputData.from_arrays(INPUTS, Y)
        return data, family.sparse(data, kinds())

    return made


def gaussian(f: Array, rng: Rng) -> Array:
    """Targets of all outputs, `[N, 3]`, the first not observed in the gap."""
    Y = f + np.sqrt(NOISE) * rng.standard_normal(f.shape)
    Y[in_gap(), 0] = np.nan
    return Y


def lmc(family: Mixture, f: Array, rng: Rng) -> tuple[Any, Any]:
    data = MultiOutputData.from_arrays(INPUTS, gaussian(f, rng))
    return data, family.sparse(data, [Gaussian(v) for v in NOISE])


def exact_lmc(family: Mixture, f: Array, rng: Rng) -> tuple[Any, Any]:
    data = MultiOutputData.from_arrays(INPUTS, gaussian(f, rng))
    model = ExactLMC(data, kernel=family.kernels, A=family.W.T[:, :, None], scaling=None)
    model.noise.assign(NOISE)
    return data, model


def yes_or_no(f: Array, rng: Rng) -> Array:
    return rng.uniform(size=f.shape) < expit(f)


def counts(f: Array, rng: Rng) -> Array:
    return rng.poisson(np.exp(f))


def spread(f: Array, rng: Rng) -> Array:
    """Mean f_1 and variance exp(f_2)."""
    return f[:, :1] + np.exp(0.5 * f[:, 1:]) * rng.standard_normal((len(f), 1))


def one_output(make: Callable[[Mixture, Array, Array, Rng], tuple[Any, Any]]) -> Any:
    """A single output, without rows in the gap."""

    def made(family: Mixture, f: Array, rng: Rng) -> tuple[Any, Any]:
        kept = ~in_gap()
        return make(family, INPUTS[kept], f[kept], rng)

    return made


def chained(family: Mixture, X: Array, f: Array, rng: Rng) -> tuple[Any, Any]:
    data = MultiOutputData.from_arrays(X, spread(f, rng))
    return data, family.sparse(data, [HeteroscedasticGaussian()])


def classes_of(f: Array, rng: Rng) -> Array:
    """Labels of a softmax, of which every class has one: what depends on the data alone may be chosen by."""
    p = np.cumsum(softmax(f, axis=1), axis=1)
    while True:
        labels = (rng.uniform(size=(len(f), 1)) > p[:, :-1]).sum(1)
        if len(np.unique(labels)) == f.shape[1]:
            return labels.astype(float)


def softmax_classes(family: Mixture, X: Array, f: Array, rng: Rng) -> tuple[Any, Any]:
    data = MultiOutputData.from_arrays(X, classes_of(f, rng))
    return data, family.sparse(data, [AugmentReduce(f.shape[1], None)])


def one_vs_each(family: Mixture, X: Array, f: Array, rng: Rng) -> tuple[Any, Any]:
    data = MultiOutputData.from_arrays(X, classes_of(f, rng))
    J = f.shape[1]
    prior = Independent(family.kernels[0], functions=J, bias=np.zeros(J))
    return data, OneVsEachMOGP(prior, InducingPoints(family.Z), OneVsEach(J), family.posterior(), J - 1, data.schema)


def labels(family: Mixture, X: Array, f: Array, rng: Rng) -> tuple[Any, Any]:
    data = LabelData.of(X, yes_or_no(f, rng).astype(int))
    return data, LabelMOGP(
        family.prior(), InducingPoints(family.Z), BernoulliLabels(f.shape[1]), family.posterior(), data.schema
    )


def annotated_values(family: Mixture, X: Array, f: Array, rng: Rng) -> tuple[Any, Any]:
    told = f[:, :1] + np.exp(0.5 * f[:, 1:]) * rng.standard_normal((len(f), f.shape[1] - 1))
    return _annotated(family, X, told, AnnotatedValues(told.shape[1]))


def annotated_classes(family: Mixture, X: Array, f: Array, rng: Rng) -> tuple[Any, Any]:
    """Two classes; an annotator knows the class with probability sigmoid(f), and guesses otherwise."""
    truth = rng.uniform(size=(len(f), 1)) < expit(f[:, 1:2] - f[:, :1])
    knows = rng.uniform(size=(len(f), f.shape[1] - 2)) < expit(f[:, 2:])
    told = np.where(knows, truth, rng.uniform(size=knows.shape) < 0.5).astype(float)
    return _annotated(family, X, told, AnnotatedClasses(2, told.shape[1]))


def _annotated(family: Mixture, X: Array, told: Array, likelihood: Any) -> tuple[Any, Any]:
    data = MultiOutputData.from_list([(X, told)])
    return data, AnnotatedMOGP(family.prior(), InducingPoints(family.Z), [likelihood], family.posterior(), data.schema)


# --- families

_THREE = np.array([[1.0, 0.6, 0.4], [-0.8, 0.7, 0.5], [0.5, -1.0, 0.6]])
_LENGTHS = (0.1, 0.2, 0.4)
_FOUR = np.array([[1.0, 0.5, 0.0], [-0.5, 0.8, 0.3], [0.3, -0.9, 0.6], [0.6, 0.2, -1.0]])


SLOWER = partial(train, steps=130, gamma=0.5, warm_up=30)
"""Where steps of length 1 on all latent GPs at once overshoot."""
JOINTLY = partial(train, steps=50, gamma=0.7, warm_up=20)


def by_way_of_joint(model: Any, data: Any) -> float:
    """Trains a joint posterior, and on from the closest factorised one: from the prior that takes many more steps."""
    model.posterior = Joint()
    model.posterior.build(len(model.prior.kernels), 1, model.inducing.num_inducing)
    JOINTLY(model, data)
    model.posterior = model.posterior.factorised(model.inducing.Kuu(model.prior.kernels))
    return train(model, data, steps=60, gamma=0.5)


GAUSSIAN = Mixture(_THREE, _LENGTHS, lmc, fit=joint, first=0)
BERNOULLI = Mixture(
    1.5 * _THREE, _LENGTHS, several(yes_or_no, lambda: [Bernoulli() for _ in range(3)]), first=0
)  # fmt: skip
COUNTS = Mixture(
    _THREE, _LENGTHS, several(counts, lambda: [Poisson() for _ in range(3)]), bias=1.0, fit=by_way_of_joint, first=0
)  # fmt: skip
HETERO = Mixture(
    np.array([[1.0, 0.6, 0.4], [0.5, -0.5, 0.4], [-0.8, 0.7, 0.5], [0.4, 0.6, -0.5]]),
    _LENGTHS,
    several(spread, lambda: [HeteroscedasticGaussian() for _ in range(2)], size=2),
    bias=np.array([0.0, -2.0, 0.0, -2.0]),
    fit=SLOWER,
    first=0,
)
CHAINED = Mixture(np.array([[1.0, 0.5], [0.6, -0.8]]), (0.15, 0.3), one_output(chained), np.array([0.0, -2.0]), SLOWER)
CLASSES = Mixture(1.5 * _FOUR, (0.15, 0.3, 0.3), one_output(softmax_classes), fit=SLOWER, contrast=True)
RIVALS = Mixture(np.eye(4), (0.3,) * 4, one_output(one_vs_each), contrast=True)
LABELS = Mixture(
    1.2 * np.array([[1.0, 0.5], [-1.0, 0.5], [0.3, 1.0], [0.8, -0.8], [1.2, 0.1], [-0.2, -1.0]]),
    (0.15, 0.3), one_output(labels), bias=np.array([0.0, -1.0, 0.5, -0.5, 0.0, 1.0]),
    fit=partial(train, steps=12),
)  # fmt: skip
VALUES = Mixture(
    np.array([[1.0, 0.3, 0.0, 0.2], [0.3, 0.7, 0.2, 0.0], [0.0, 0.3, 0.8, 0.2], [-0.3, 0.0, 0.2, 0.8]]),
    (0.15, 0.3, 0.3, 0.4), one_output(annotated_values), np.array([0.0, -2.0, -1.0, 0.0]), SLOWER,
)  # fmt: skip
GUESSES = Mixture(
    np.array([[1.5, 0.3, 0.0, 0.2, 0], [-1.5, 0.2, 0.2, 0.0, 0], [0.0, 1.0, 0.3, 0, 0.2], [0.2, 0, 1.0, 0.3, 0],
              [0, 0.2, 0, 0.3, 1.0]]),
    (0.15, 0.3, 0.3, 0.4, 0.4), one_output(annotated_classes), np.array([0.0, 0.0, 2.0, 1.0, 0.0]), SLOWER,
)  # fmt: skip

_BETWEEN = "dependence between latent GPs"
_SHAPE = "all but a Gaussian shape"
_BOTH = f"{_BETWEEN}; {_SHAPE}"
_PAIR = "in expectations, dependence between mean and variance"
_LYING = "what lies between inducing inputs"
_SOFTMAX = "the softmax, of which it has a bound"


def families() -> list[Family]:
    """All of them, exact ones first."""
    some = replace
    made = [
        ("exact-lmc", "LMC, exact", "", some(GAUSSIAN, draw=exact_lmc, fit=nothing)),
        ("lmc-joint", "LMC, Gaussian, joint (what `fit` ends with)", "", GAUSSIAN),
        ("lmc-full", "LMC, Gaussian, factorised", _BETWEEN, some(GAUSSIAN, fit=factorised)),
        ("lmc-joint-10", "LMC, Gaussian, joint, 10 inducing inputs", _LYING, some(GAUSSIAN, Z=FEW)),
        ("lmc-mended-10", "LMC, Gaussian, the same, what lies between them as noise (not in the library)",
         "dependence between rows of what lies between inducing inputs", some(GAUSSIAN, Z=FEW, fit=mended)),
        ("lmc-full-10", "LMC, Gaussian, factorised, 10 inducing inputs", f"{_BETWEEN}; {_LYING}",
         some(GAUSSIAN, Z=FEW, fit=factorised)),
        ("bernoulli", "LMC, Bernoulli", _BOTH, BERNOULLI),
        ("bernoulli-joint", "LMC, Bernoulli, joint", _SHAPE, some(BERNOULLI, posterior=Joint)),
        ("bernoulli-10", "LMC, Bernoulli, 10 inducing inputs", f"{_BOTH}; {_LYING}", some(BERNOULLI, Z=FEW)),
        ("poisson", "LMC, Poisson", _BOTH, COUNTS),
        ("poisson-joint", "LMC, Poisson, joint", _SHAPE, some(COUNTS, posterior=Joint, fit=JOINTLY)),
        ("hetero", "LMC, Gaussian of varying noise", f"{_BOTH}; {_PAIR}", HETERO),
        ("hetero-joint", "LMC, Gaussian of varying noise, joint", f"{_SHAPE}; {_PAIR}",
         some(HETERO, posterior=Joint, fit=JOINTLY)),
        ("ccgp", "CCGP, Gaussian of varying noise", f"{_BOTH}; {_PAIR}", CHAINED),
        ("ccgp-joint", "CCGP, Gaussian of varying noise, joint", f"{_SHAPE}; {_PAIR}",
         some(CHAINED, posterior=Joint, fit=JOINTLY)),
        ("mogps-ar", "MOGPs-AR, 4 classes, all rivals", f"{_BOTH}; {_SOFTMAX}", CLASSES),
        ("ovse", "OvsE-F, 4 classes", f"dependence between classes; {_SHAPE}; {_SOFTMAX}", RIVALS),
        ("ovse-p", "OvsE-P, 4 classes", "the same; all covariances but those with M numbers",
         some(RIVALS, posterior=Parsimonious)),
        ("mlgpf", "MLGPF, 6 labels", _BOTH, LABELS),
        ("ccgpma-r", "CCGPMA-R, 3 annotators of a value", f"{_BOTH}; {_PAIR}", VALUES),
        ("ccgpma-c", "CCGPMA-C, 3 annotators of 2 classes",
         f"{_BOTH}; annotators who guess, of whom it has a pseudo-likelihood", GUESSES),
    ]  # fmt: skip
    return [
        Family(name, title, out, mixture.run, 200 if name == "mlgpf" else 400) for name, title, out, mixture in made
    ]
