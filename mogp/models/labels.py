"""MLGPF: points with some of many labels, by a factor model of Gaussian processes (Panos, chapter
4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import Kernel, Linear, SquaredExponential
from gpflow.utilities import set_trainable
from scipy.sparse import csr_array
from scipy.special import expit, log_expit

from mogp.data import Array, MultiOutputData
from mogp.data.batches import Batch
from mogp.data.labels import LabelData, Matrix, is_sparse, sparse_rows
from mogp.inducing import InducingPoints, kmeans_points, subspace_points
from mogp.kernels import parameters_read_once
from mogp.likelihoods import BernoulliLabels
from mogp.likelihoods.logistic import log_expected_sigmoid
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Factors, Full, Parsimonious
from mogp.posteriors.base import by_latent
from mogp.priors import ICM, LMC, Marginals, MixingPrior, View

KernelName = Literal["LINEAR", "LINEAR-l", "SE", "SE-p-l", "ARD", "ARD/LINEAR"]
Start = Literal["data", "thesis"]
_NUMBERS_AT_ONCE = 1 << 22
_NEWTON_STEPS = 50
_ROUNDING = 1e-10


class Ranking(NamedTuple):
    """The best labels of each point, best first: their numbers `[N, k]` and their scores
    `[N, k]`.
    """

    labels: npt.NDArray[np.int64]
    scores: Array


class LabelMOGP(SparseMOGP):
    r"""A `SparseMOGP` whose one output is labels: $f_k(x) = \sum_p\phi_{kp}h_p(x) + b_k$,
    $p(y_k = 1) = \sigma(f_k)$.

    Prediction goes through the points in blocks, so that the table of all points and labels is
    never held, unless it is what was asked for. Inputs are dense or SciPy sparse.
    """

    prior: MixingPrior

    def top_labels(self, Xnew: Any, k: int = 5) -> Ranking:
        r"""The `k` labels with the largest mean utilities
        $\bar f_k = \sum_p\phi_{kp}\bar h_p + b_k$ at each point.
        """
        if not 1 <= k <= self.prior.num_functions:
            raise ValueError(
                f"k={k} of {self.prior.num_functions} labels; ask for at least one, and at most"
                " all."
            )
        found = [tf.math.top_k(scores, k) for scores in self._means(Xnew)]
        return Ranking(
            np.concatenate(
                [np.empty((0, k), np.int64), *(np.asarray(one.indices) for one in found)]
            ),
            np.concatenate([np.empty((0, k)), *(np.asarray(one.values) for one in found)]),
        )

    def scores(self, Xnew: Any) -> Array:
        r"""Mean utilities $\bar f_k$ of all labels, `[N, K]`."""
        return self._table(self._means(Xnew))

    def predict_proba(self, Xnew: Any) -> Array:
        r"""Probabilities $\mathbb E\,\sigma(f_k)$ of all labels, `[N, K]`."""
        likelihood = self.likelihood.likelihoods[0]
        return self._table(likelihood.predictive(view)[0] for view in self._views(Xnew))

    def log_odds(self, Xnew: Any) -> Array:
        r"""$\log\frac{p_k}{1 - p_k}$ of the probabilities $p_k = \mathbb E\,\sigma(f_k)$, `[N, K]`,
        however small.
        """
        return self._table(_log_odds_of(view.marginals()) for view in self._views(Xnew))

    def predict_log_density(self, data: MultiOutputData | LabelData) -> dict[str, tf.Tensor]:
        r"""$\sum_k \log p(y_{nk})$ of each point, labels taken one by one, by the name of the
        output.
        """
        self.check(data)
        parts = [super(LabelMOGP, self).predict_log_density(own) for own in self._parts(data)]
        return {self.names[0]: tf.concat([part[self.names[0]] for part in parts], 0)}

    def elbo(self, data: Batch | MultiOutputData | LabelData) -> tf.Tensor:
        """The evidence lower bound, estimated on a batch; of all the data, exactly, in blocks of
        points.
        """
        if isinstance(data, Batch):
            return super().elbo(data)
        self.check(data)
        with parameters_read_once():
            factors = self.factors()
            likelihood = self.likelihood.likelihoods[0]
            total = -self.kl_weight * self.kl(factors)
            for own in self._parts(data):
                batch = own.full()
                view = self._view(self.condition(batch.X, factors), [0], batch.outputs)
                total += tf.reduce_sum(likelihood.over_all(view, batch.outputs[0].Y))
            return total

    def given(self, Xnew: Any, known: Any) -> Array:
        r"""Utilities of all labels, `[N, K]`, at points of which some labels are known.

        With $q(h) = \prod_p\mathcal N(h_p \mid m_p, s_p)$ at a point and $y_k = \pm1$ for the
        labels $k$ in $o$ that are known, $h$ is taken to be the most probable one,

        $$\hat h = \arg\min_h \sum_{k\in o}\mathrm{softplus}\big(-y_k(\phi_k^\top h + b_k)\big)
          + \tfrac12\sum_p\frac{(h_p - m_p)^2}{s_p},$$

        found by Newton's method on $f_o$, whose prior covariance is
        $C = \Phi_o\,\mathrm{diag}(s)\,\Phi_o^\top$. Where nothing is known these are the `scores`.

        Args:
            Xnew: points `[N, P]`.
            known: `[N, K]`, 1 for a label that a point has, -1 for one it has not, 0 (or no entry)
                where that is not known.
        """
        X, signs = self._rows(Xnew), csr_array(known)
        if signs.shape != (X.shape[0], self.prior.num_functions):
            raise ValueError(
                f"known has shape {signs.shape}; expected ({X.shape[0]},"
                f" {self.prior.num_functions}), a row a point."
            )
        strange = np.setdiff1d(signs.data, [-1, 0, 1])
        if len(strange):
            raise ValueError(
                f"known has entries {strange[:3].tolist()}; expected 1, -1, and 0 where it is not"
                " known."
            )
        signs.eliminate_zeros()
        most = int(np.diff(signs.indptr).max(initial=0))
        factors = self.factors()
        blocks = _blocks(
            X.shape[0], max(self.prior.num_functions, most * (most + self.prior.num_latents))
        )
        return self._table(self._given(X[rows], signs[rows], factors) for rows in blocks)

    def _given(self, X: Matrix, signs: csr_array, factors: Factors) -> Array:
        conditional: Any = self.condition(self._inputs(X), factors)
        m, s = (np.asarray(a).T for a in conditional.latents())
        s = np.maximum(s, 0)
        prior = self.prior
        labels, y = _padded(signs)
        own = (np.eye(prior.num_functions) if prior.W is None else np.asarray(prior.W))[labels] * (
            y != 0
        )[..., None]
        offset = 0 if prior.bias is None else np.asarray(prior.bias)[labels]
        slope = _mode_slope(
            y, np.einsum("nop,np->no", own, m) + offset, (own * s[:, None]) @ own.transpose(0, 2, 1)
        )
        h = m + s * np.einsum("nop,no->np", own, slope)
        return np.asarray(prior.mix(tf.constant(h, gpflow.default_float())))

    def _rows(self, Xnew: Any) -> Matrix:
        """Points that can be cut into blocks, and are finite."""
        X = sparse_rows(Xnew) if is_sparse(Xnew) else np.asarray(Xnew)
        wrong = int(np.sum(~np.isfinite(X.data if is_sparse(X) else X)))
        if wrong:
            raise ValueError(
                f"Xnew has {wrong} entries that are NaN or infinite; inputs must be finite numbers."
            )
        return X

    def _means(self, Xnew: Any) -> Iterator[tf.Tensor]:
        r"""Mean utilities of block after block, from $\bar h_p(x) = k(x, Z)\alpha_p$: no variance
        is computed.
        """
        X, prior, alpha = self._rows(Xnew), self.prior, self.posterior.weights(self.factors())
        for rows in _blocks(X.shape[0], prior.num_functions):
            Kuf = self.inducing.Kuf(prior.kernels, self._inputs(X[rows]))
            latents = by_latent(tf.linalg.matvec(Kuf, alpha, transpose_a=True))
            yield prior.mix(tf.transpose(latents))

    def _views(self, Xnew: Any) -> Iterator[View]:
        """The functions of all labels at block after block of points."""
        X, factors, labels = self._rows(Xnew), self.factors(), self.prior.num_functions
        for rows in _blocks(X.shape[0], self._width):
            yield View(self.condition(self._inputs(X[rows]), factors), 0, labels, None)

    def _parts(self, data: Any) -> Iterator[LabelData]:
        return (data.take(rows) for rows in _blocks(data.num_points, self._width))

    @property
    def _width(self) -> int:
        """Numbers that a point takes where variances are computed: `K` of them, and `M` for every
        latent GP.
        """
        return max(self.prior.num_functions, self.prior.num_latents * self.inducing.num_inducing)

    def _table(self, blocks: Iterable[Any]) -> Array:
        return np.concatenate(
            [np.empty((0, self.prior.num_functions)), *(np.asarray(one) for one in blocks)]
        )


def _blocks(points: int, width: int) -> Iterator[slice]:
    """Rows of blocks that have about `_NUMBERS_AT_ONCE` numbers, `width` a row."""
    size = max(1, _NUMBERS_AT_ONCE // width)
    return (slice(start, start + size) for start in range(0, points, size))


def _log_odds_of(f: Marginals) -> tf.Tensor:
    return log_expected_sigmoid(f.mean, f.var) - log_expected_sigmoid(-f.mean, f.var)


def _padded(signs: csr_array) -> tuple[npt.NDArray[np.int64], Array]:
    """Labels `[N, o]` and signs `[N, o]` of the entries of each row; 0 and 0 where a row has
    fewer.
    """
    counts = np.diff(signs.indptr)
    labels = np.zeros((signs.shape[0], max(1, counts.max(initial=0))), np.int64)
    filled = np.arange(labels.shape[1]) < counts[:, None]
    y = np.zeros(labels.shape)
    labels[filled], y[filled] = signs.indices, signs.data
    return labels, y


def _mode_slope(y: Array, mean: Array, C: Array) -> Array:
    r"""$\alpha = \partial_f\log p(y \mid f)$, `[N, o]`, at the mode of
    $\prod_k\sigma(y_kf_k)\,N(f \mid \bar f, C)$.

    There $f = \bar f + C\alpha$. Newton's steps (Rasmussen and Williams, algorithm 3.1), each
    halved as long as the objective of its row would fall. Entries with $y = 0$ have no say, and
    $\alpha = 0$.
    """
    seen = (y != 0).astype(float)
    alpha = np.zeros_like(mean)

    def objective(alpha: Array) -> Array:
        Ca = np.einsum("nij,nj->ni", C, alpha)
        value: Array = (seen * log_expit(y * (mean + Ca))).sum(1) - 0.5 * (alpha * Ca).sum(1)
        return value

    for _ in range(_NEWTON_STEPS):
        f = mean + np.einsum("nij,nj->ni", C, alpha)
        sigma = expit(y * f)
        root = np.sqrt(seen * sigma * (1 - sigma))
        b = root**2 * (f - mean) + y * (1 - sigma)
        B = np.eye(y.shape[1]) + root[:, :, None] * C * root[:, None]
        inner = root * np.einsum("nij,nj->ni", C, b)
        target = b - root * np.linalg.solve(B, inner[..., None])[..., 0]
        step = np.ones(len(y))
        now = objective(alpha)
        for _ in range(10):
            falls = objective(alpha + step[:, None] * (target - alpha)) < now - _ROUNDING * np.abs(
                now
            )
            if not falls.any():
                break
            step[falls] /= 2
        moved = step[:, None] * (target - alpha)
        alpha = alpha + moved
        if np.abs(moved).max(initial=0) < 1e-12:
            break
    return alpha


# --- names of methods


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
        names=data.names,
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
