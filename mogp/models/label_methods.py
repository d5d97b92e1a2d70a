"""MLGPF by the names of its variants in the thesis (Panos, chapter 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import gpflow
import numpy as np
from gpflow.kernels import Kernel, Linear, SquaredExponential
from gpflow.utilities import set_trainable

from mogp.data import Array, LabelData
from mogp.inducing import InducingPoints, kmeans_points, subspace_points
from mogp.likelihoods import BernoulliLabels
from mogp.models.labels import LabelMOGP
from mogp.posteriors import Full, Parsimonious
from mogp.priors import ICM, LMC

KernelName = Literal["LINEAR", "LINEAR-l", "SE", "SE-p-l", "ARD", "ARD/LINEAR"]
Start = Literal["data", "thesis"]


@dataclass(frozen=True)
class Method:
    """A variant of MLGPF by its name in the thesis, `KERNEL[-S[-B]][-FX][-UN][-PP][-AG]`.

    Attributes:
        kernel: "LINEAR", "LINEAR-l" (a weight for each input), "SE", "SE-p-l" (a lengthscale for
            each factor), "ARD" or "ARD/LINEAR" (their sum).
        subspace: inducing inputs are coordinates on a basis (S).
        train_basis: the basis is trained too (B).
        fixed: inducing inputs stay where they start (FX).
        unit: inducing inputs are of length one; not, with UN.
        parsimonious: the posterior of `2M` parameters a factor (PP) in place of the full one.
        autograd: trained with RMSProp, as the thesis's second implementation (AG); the model is the
            same.
    """

    kernel: KernelName
    subspace: bool = False
    train_basis: bool = False
    fixed: bool = False
    unit: bool = True
    parsimonious: bool = False
    autograd: bool = False

    @classmethod
    def parse(cls, name: str) -> Method:
        """The method of a name such as "ARD-S-PP"; ℓ may be written l.

        >>> Method.parse("ARD-S-PP") == Method("ARD", subspace=True, parsimonious=True)
        True
        """
        plain = name.replace("ℓ", "l")
        kernels = [k for k in get_args(KernelName) if plain == k or plain.startswith(k + "-")]
        if not kernels:
            raise ValueError(
                f"{name!r} names no method: a name begins with one of"
                f" {', '.join(get_args(KernelName))}, then come any of -S, -S-B, -FX, -UN, -PP,"
                " -AG, in this order."
            )
        kernel: KernelName = max(kernels, key=len)
        tokens = plain[len(kernel) :].split("-")[1:]
        order = ["S", "B", "FX", "UN", "PP", "AG"]
        unknown = [t for t in tokens if t not in order]
        if (
            unknown
            or tokens != sorted(set(tokens), key=order.index)
            or ("B" in tokens and "S" not in tokens)
        ):
            raise ValueError(
                f"{name!r} names no method: after {kernel} come any of -S, -S-B, -FX, -UN, -PP,"
                " -AG, once each and in this"
                f" order{f'; there is no -{unknown[0]}' if unknown else ''}."
            )
        return cls(
            kernel,
            "S" in tokens,
            "B" in tokens,
            "FX" in tokens,
            "UN" not in tokens,
            "PP" in tokens,
            "AG" in tokens,
        )

    def __str__(self) -> str:
        flags = (
            self.subspace,
            self.train_basis,
            self.fixed,
            not self.unit,
            self.parsimonious,
            self.autograd,
        )
        return "-".join(
            [
                self.kernel,
                *(t for t, on in zip(("S", "B", "FX", "UN", "PP", "AG"), flags, strict=True) if on),
            ]
        )

    def parameters(
        self, inputs: int, labels: int, factors: int, inducing: int, rank: int = 0
    ) -> int:
        """Trainable numbers of the model (Table 4.3): loadings, biases, posterior, inducing inputs
        and kernel.
        """
        posterior = 2 * inducing if self.parsimonious else inducing + inducing * (inducing + 1) // 2
        points = inducing * rank if self.subspace else inducing * inputs
        points += rank * inputs if self.train_basis else 0
        kernel = {"LINEAR": 0, "SE": 1, "SE-p-l": factors}.get(self.kernel, inputs)
        return (
            labels * factors + labels + factors * posterior + (0 if self.fixed else points) + kernel
        )


def mlgpf(
    method: str | Method,
    data: LabelData,
    *,
    factors: int = 30,
    inducing: int | InducingPoints = 100,
    rank: int | None = None,
    negatives: int | None = None,
    shared: bool = True,
    weight: float = 2.0,
    whiten: bool = False,
    start: Start = "data",
    nodes: int = 10,
    seed: int = 0,
) -> LabelMOGP:
    r"""The multi-label GP factor model (Panos, chapter 4), by the name of the variant: "ARD",
    "LINEAR-S-PP".

    prior       LMC of `factors` latent GPs with one kernel (with SE-p-l one each), loadings and
                biases for each label
    inducing    points, free or in a subspace, on the unit sphere (unless UN)
    posterior   full (whitened or not) or parsimonious
    likelihood  Bernoulli for each label, of the labels that a point has not `negatives` a step

    The thesis's preparation of inputs is `LabelData.of(X, Y, normalise=True)`: rows of length one.

    Args:
        method: a name, see `Method`, or the method.
        data: points and labels.
        factors: latent GPs $P$.
        inducing: points $M$ (k-means centres), or the points themselves.
        rank: dimension of the subspace, for the methods with S.
        negatives, shared, nodes: see `BernoulliLabels`.
        weight: start value of $w$ in $k = \exp(-\frac w2|x - x'|^2)$, with a trainable weight for
            each input (ARD), one for all (SE) or one a factor (SE-p-l).
        whiten: of the full posterior.
        start: "data": biases at the log-odds of the labels and $q(u)$ narrow around draws of the
            prior scale; "thesis": everything random, as listed in its appendix C.
        seed: of start values and of sampled labels.
    """
    chosen = Method.parse(method) if isinstance(method, str) else method
    if factors < 1:
        raise ValueError(f"factors={factors}; at least one latent GP is needed.")
    if start not in get_args(Start):
        raise ValueError(f"start={start!r}; choose 'data' or 'thesis'.")
    if chosen.subspace and rank is None and not isinstance(inducing, InducingPoints):
        raise ValueError(
            f"{chosen} has inducing inputs in a subspace; say of how many dimensions, as rank=250."
        )
    rng, K = np.random.default_rng(seed), data.num_labels
    Phi = rng.standard_normal((K, factors), gpflow.default_float()) / np.sqrt(
        factors, dtype=gpflow.default_float()
    )
    bias = rng.normal(size=K) / np.sqrt(factors) if start == "thesis" else _log_odds(data)
    kernels = _kernels(chosen, factors, data.input_dim, weight)
    prior = (
        LMC(kernels, K, W=Phi, bias=bias)
        if isinstance(kernels, list)
        else ICM(kernels, K, factors, Phi, bias)
    )
    model = LabelMOGP(
        prior=prior,
        inducing=_inducing(chosen, data, inducing, rank, seed),
        posterior=Parsimonious() if chosen.parsimonious else Full(whiten),
        likelihood=BernoulliLabels(K, negatives, shared=shared, nodes=nodes, seed=seed),
        names=data.schema,
    )
    _start(model.posterior, rng)
    return model


def _kernels(method: Method, factors: int, inputs: int, weight: float) -> Kernel | list[Kernel]:
    lengthscale = weight**-0.5

    def unit(kernel: Kernel) -> Kernel:
        set_trainable(kernel.variance, False)
        return kernel

    match method.kernel:
        case "LINEAR":
            return unit(Linear())
        case "LINEAR-l":
            return Linear(np.ones(inputs))
        case "SE":
            return unit(SquaredExponential(lengthscales=lengthscale))
        case "SE-p-l":
            return [unit(SquaredExponential(lengthscales=lengthscale)) for _ in range(factors)]
    ard = unit(SquaredExponential(lengthscales=np.full(inputs, lengthscale)))
    return ard if method.kernel == "ARD" else ard + unit(Linear())


def _inducing(
    method: Method, data: LabelData, inducing: int | InducingPoints, rank: int | None, seed: int
) -> InducingPoints:
    if isinstance(inducing, InducingPoints):
        points = inducing
    elif method.subspace:
        train_basis = method.train_basis and not method.fixed
        points = subspace_points(data, inducing, rank or 0, train_basis, method.unit, seed)
    else:
        points = kmeans_points(data, inducing, seed=seed, unit=method.unit)
    if method.fixed:
        set_trainable(points, False)
    return points


def _log_odds(data: LabelData) -> Array:
    """Of each label, counted with half a point more of each kind."""
    has = data.counts + 0.5
    odds: Array = np.log(has / (data.num_points + 1 - has))
    return odds


def _start(posterior: Any, rng: np.random.Generator) -> None:
    if isinstance(posterior, Parsimonious):
        posterior.mu.assign(0.5 * rng.normal(size=posterior.mu.shape))
        posterior.sigma.assign(np.logaddexp(0, rng.uniform(size=posterior.sigma.shape)) + 1e-6)
        return
    M, L = posterior.q_mu.shape
    posterior.q_mu.assign(0.5 * rng.normal(size=(M, L)))
    posterior.q_sqrt.assign(np.tile(0.2 * np.eye(M), (L, 1, 1)))
