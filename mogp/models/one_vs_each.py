"""Models of one output with many classes: one-vs-each with partial updates, its linear baseline,
and robust-max.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, get_args

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.kernels import SquaredExponential

from mogp.data import Array, MultiOutputData, Names, Schema
from mogp.data.batches import Batch
from mogp.data.class_batches import ClassBatch, ClassBatches, class_labels
from mogp.data.labels import LabelData
from mogp.inducing import InducingPoints, kmeans_points
from mogp.kernels import KernelRows, kernels_of, parameters_read_once, take_rows
from mogp.likelihoods import OneVsEach, RobustMax
from mogp.likelihoods.one_vs_each import expected_log_sigmoid
from mogp.models.base import MOGP
from mogp.models.lengthscales import start_lengthscales
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full, Parsimonious, Posterior, latents_first, start_like_parsimonious
from mogp.priors import Independent, Marginals, View

OneVsEachMethod = Literal["OvsE-P", "OvsE-F", "OvsE-P-SH", "OvsE-F-SH"]
RobustMaxMethod = Literal["RM-P", "RM-F"]
_ROWS_AT_ONCE = 2048


class OneVsEachMOGP(SparseMOGP):
    r"""One output, a GP with a bias for each of $C$ classes, the softmax bounded by one-vs-each.

    $$\mathcal F = \sum_k \Big[\sum_{i \in \mathcal N_k}\sum_{\ell \ne k}
      \mathbb E_q \log\sigma\big(f_k(x_i) - f_\ell(x_i)\big) - \mathrm{KL}[q(\mathbf u_k) \|
        p(\mathbf u_k)]\Big],$$

    and a step reads one class $k$, $s$ rivals and $B_k$ rows of class $k$ (`ClassBatches`):

    $$\hat{\mathcal F} = C\Big[\frac{C-1}{s}\frac{N_k}{B_k}\sum_{i \in \mathcal B_k}\sum_{\ell}
      \mathbb E_q \log\sigma\big(f_k(x_i) - f_\ell(x_i)\big) - \mathrm{KL}[q(\mathbf u_k) \|
        p(\mathbf u_k)]\Big].$$

    Its mean is $\mathcal F$, and its cost does not depend on $C$: what a class owns (inducing
    inputs, kernel parameters, $q(\mathbf u_k)$, bias) are rows of variables, and only the rows of
    the $1 + s$ classes are read. With `Adam(lazy=True)` the others stay as they are, with their
    moments.

    Args:
        prior: `Independent`, one function for each class, with a bias.
        inducing: one set of inducing inputs for all classes, or a set for each.
        likelihood: `OneVsEach`.
        posterior: the variational family; `Full()` if None.
        rivals: classes $s$ with which a step compares.
        names: see `SparseMOGP`.
    """

    def __init__(
        self,
        prior: Independent,
        inducing: InducingPoints,
        likelihood: OneVsEach,
        posterior: Posterior | None = None,
        rivals: int = 1,
        names: Names = None,
    ) -> None:
        if prior.bias is None:
            raise ValueError("one-vs-each needs a bias for each class: give the prior bias=0.0.")
        if rivals < 1:
            raise ValueError(f"rivals={rivals}; a class is compared with at least one other.")
        super().__init__(prior, inducing, [likelihood], posterior, names)
        latents_first(self.posterior)
        self.rivals = min(rivals, likelihood.num_classes - 1)

    @property
    def num_classes(self) -> int:
        """Classes, `C`."""
        return self.prior.num_functions

    def batches(self, data: MultiOutputData, size: int | None = None, seed: int = 0) -> Any:
        """Batches of one class each with at most `size` rows; None for the exact bound at
        every step.
        """
        if size is None:
            class_labels(data, self.num_classes)
            return data.batches(None, seed)
        return ClassBatches(data, size, seed, classes=self.num_classes, rivals=self.rivals)

    def elbo(self, data: ClassBatch | Batch | MultiOutputData | LabelData) -> tf.Tensor:
        """The bound: exact on all the data, and without bias on the batch of a class."""
        if not isinstance(data, ClassBatch):
            return super().elbo(data)
        with parameters_read_once():
            f, kl = self._of_classes(data.X, data.classes)
            return self.num_classes * (
                data.weight * _comparisons(f, self._nodes) - self.kl_weight * kl[0]
            )

    def _of_classes(self, X: tf.Tensor, classes: tf.Tensor) -> tuple[Marginals, tf.Tensor]:
        """Marginals `[N, n]` of the functions of the classes `[n]`, and the KL of each, reading
        nothing of others.
        """
        count = int(classes.shape[0])
        kernels, copies = self.prior.kernels, count
        if len(kernels) > 1:
            kernels, copies = kernels_of(kernels, classes), 1
        prior = take_rows(self.prior, classes, kernels=kernels, copies=copies, num_functions=count)
        inducing = (
            self.inducing if self.inducing.num_sets is None else take_rows(self.inducing, classes)
        )
        posterior = take_rows(self.posterior, classes, copies=copies)
        factors = posterior.factorise(inducing.Kuu(kernels))
        f = prior.condition(X, inducing, posterior, factors).marginals(range(count))
        return f, posterior.kl(factors)

    @property
    def _nodes(self) -> int:
        return int(self.likelihood.likelihoods[0].nodes)

    def predict_log_bound(self, Xnew: npt.ArrayLike, normalise: bool = False) -> tf.Tensor:
        r"""$\log\int\tilde p(k \mid f)\,q(f)\,df$ at `Xnew [N, P]`, `[N, C]`: see
        `OneVsEach.log_bound`.
        """
        X = self.at(Xnew)
        blocks = [X[start : start + _ROWS_AT_ONCE] for start in range(0, X.shape[0], _ROWS_AT_ONCE)]
        views = (View(self.condition(block), 0, self.num_classes, None) for block in blocks)
        return tf.concat(
            [self.likelihood.likelihoods[0].log_bound(view, normalise) for view in views], 0
        )


class LinearOneVsEach(MOGP):
    r"""OvsE-LIN: linear scores $f_k(x) = w_k^\top x + b_k$ with the one-vs-each bound (Titsias
    2016), no posterior.

    Maximises $\sum_k\big[\sum_{i\in\mathcal N_k}\sum_{\ell\ne k}\log\sigma(f_k(x_i) - f_\ell(x_i))
    - \tfrac\lambda2\|w_k\|^2\big]$, estimated as that of `OneVsEachMOGP` on the same batches.

    Args:
        classes: number of classes $C$.
        inputs: number of input columns.
        penalty: $\lambda$.
        rivals: classes with which a step compares.
        names: see `SparseMOGP`.
    """

    def __init__(
        self,
        classes: int,
        inputs: int,
        penalty: float = 1.0,
        rivals: int = 1,
        names: Names = None,
    ) -> None:
        super().__init__()
        if not penalty >= 0:
            raise ValueError(f"penalty={penalty}; it must not be negative.")
        if classes < 2 or inputs < 1 or rivals < 1:
            raise ValueError(
                f"classes={classes}, inputs={inputs}, rivals={rivals}; two classes, one input and"
                " one rival are needed."
            )
        self.weights = gpflow.Parameter(np.zeros((classes, inputs)))
        self.bias = gpflow.Parameter(np.zeros(classes))
        self.penalty = penalty
        self.rivals = min(rivals, classes - 1)
        self.schema = Schema.of(names, 1)

    @property
    def num_classes(self) -> int:
        """Classes, `C`."""
        return int(self.bias.shape[0])

    @property
    def input_dim(self) -> int:
        """Columns of the inputs."""
        return int(self.weights.shape[1])

    def choices(self) -> dict[str, str]:
        """Scores and objective, in words."""
        return {
            "scores": f"linear, {self.num_classes} classes",
            "objective": f"one-vs-each, {self.rivals} rivals a step, penalty {self.penalty:g}",
        }

    def check(self, data: MultiOutputData) -> None:
        """Raise unless the model can be trained on the data."""
        self.schema.check(data.schema)
        class_labels(data, self.num_classes)
        if data.input_dim != self.weights.shape[1]:
            raise ValueError(
                f"the data have {data.input_dim} input columns, the model reads"
                f" {self.weights.shape[1]}."
            )

    def batches(self, data: MultiOutputData, size: int | None = None, seed: int = 0) -> Any:
        """As `OneVsEachMOGP.batches`."""
        if size is None:
            return data.batches(None, seed)
        return ClassBatches(data, size, seed, classes=self.num_classes, rivals=self.rivals)

    def elbo(self, data: ClassBatch | Batch | MultiOutputData) -> tf.Tensor:
        """The penalised objective: exact on all the data, and without bias on the batch of a
        class.
        """
        if isinstance(data, ClassBatch):
            weights, bias = (
                tf.gather(p.unconstrained_variable, data.classes) for p in (self.weights, self.bias)
            )
            scores = tf.linalg.matmul(data.X, weights, transpose_b=True) + bias
            compared = tf.reduce_sum(tf.math.log_sigmoid(scores[:, :1] - scores[:, 1:]))
            return self.num_classes * (
                data.weight * compared - 0.5 * self.penalty * tf.reduce_sum(weights[0] ** 2)
            )
        batch = data.full() if isinstance(data, MultiOutputData) else data
        own = batch.outputs[0]
        scores = self.scores(batch.X if own.rows is None else tf.gather(batch.X, own.rows))
        of_label = tf.gather(scores, tf.cast(own.Y[:, 0], tf.int64), batch_dims=1)
        compared = tf.reduce_sum(tf.math.log_sigmoid(of_label[:, None] - scores), -1) + np.log(2.0)
        return tf.reduce_sum(own.weight * compared) - 0.5 * self.penalty * tf.reduce_sum(
            self.weights**2
        )

    def scores(self, X: tf.Tensor) -> tf.Tensor:
        """`[N, C]` at `X [N, P]`."""
        return tf.linalg.matmul(X, self.weights, transpose_b=True) + self.bias

    def predict_log_density(self, data: MultiOutputData) -> dict[str, tf.Tensor]:
        """Log softmax of the labels, `[N]`, under the name of the output."""
        own = self.aligned(data)
        log_p = tf.nn.log_softmax(self.scores(self.read(own.inputs(0))))
        labels = tf.cast(own.outputs[0].Y[:, 0], tf.int64)
        return {self.names[0]: tf.gather(log_p, labels, batch_dims=1)}

    def _predict_f(self, X: tf.Tensor, outputs: Sequence[int], full_cov: bool = False) -> Marginals:
        """The scores: points, without variance."""
        F = self.scores(X)
        N = tf.shape(F)[0]
        return Marginals(F, tf.zeros([self.num_classes, N, N], F.dtype) if full_cov else 0 * F)

    def _predict_y(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        """Softmax of the scores, and the variances of the indicators of the classes."""
        p = tf.nn.softmax(self.scores(X))
        return Marginals(p, p - p**2)

    def _draw_f(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        return tf.repeat(self.scores(X)[None], samples, 0)

    def _draw_y(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        """Labels: given the scores, rows are independent."""
        return self._draw_y_apart(X, outputs[0], samples, seed)

    def _draw_y_apart(self, X: tf.Tensor, output: int, samples: int, seed: int) -> tf.Tensor:
        drawn = tf.random.stateless_categorical(self.scores(X), samples, [seed, 0])
        return tf.cast(tf.transpose(drawn), X.dtype)[..., None]


def ovse(
    data: MultiOutputData,
    method: OneVsEachMethod = "OvsE-F",
    classes: int | None = None,
    *,
    inducing: int | InducingPoints = 100,
    lengthscale: float | None = None,
    variance: float = 1.0,
    rivals: int = 1,
    whiten: bool = True,
    sigma: float = 1.0,
    seed: int = 0,
) -> OneVsEachMOGP:
    r"""One output with many classes, by one-vs-each (Panos, chapter 3): "OvsE-P", "OvsE-F",
    "OvsE-P-SH", "OvsE-F-SH".

    prior       independent, a bias for each class; one kernel for all classes, in OvsE-P-SH one for
                each
    inducing    points, a set for each class, with -SH one set for all
    posterior   parsimonious (P) or full (F)
    likelihood  one-vs-each

    Train it with `fit(model, data, optimizer=Adam(lazy=True), batch_size=...)`.

    Args:
        data: labels 0, 1, … of one output; every class has rows.
        method: which of the four.
        classes: number of classes; the largest label and one if None.
        inducing: points a set (k-means centres; of the rows of a class for sets of its own), or the
            points themselves.
        lengthscale: start value; the median distance between inputs if None.
        variance: start value of the kernel's variance.
        rivals: classes with which a step compares the one it reads.
        whiten: parametrise full posteriors by whitened variables (the thesis does not).
        sigma: start value of the parsimonious $\Sigma = \sigma I$. Full posteriors start with the
            same moments.
        seed: of the start values.
    """
    _one_of(method, OneVsEachMethod)
    labels = class_labels(data, classes)
    C = int(labels.max()) + 1 if classes is None else classes
    shared = method.endswith("-SH")
    kernel = _kernel(data, lengthscale, variance, seed)
    if method == "OvsE-P-SH":
        prior = Independent(KernelRows(kernel, C), bias=0.0)
    elif shared:
        prior = Independent(kernel, functions=C, bias=0.0)
    else:
        prior = Independent([kernel] * C, bias=0.0)
    if not isinstance(inducing, InducingPoints):
        inducing = (
            kmeans_points(data, inducing, seed=seed)
            if shared
            else class_points(data, labels, inducing, seed)
        )
    model = OneVsEachMOGP(
        prior=prior,
        inducing=inducing,
        likelihood=OneVsEach(C, seed=seed),
        posterior=_posterior(method, whiten, sigma),
        rivals=rivals,
        names=data.schema,
    )
    _match_start(model, sigma)
    return model


def robust_max(
    data: MultiOutputData,
    method: RobustMaxMethod = "RM-F",
    classes: int | None = None,
    *,
    inducing: int | InducingPoints = 100,
    lengthscale: float | None = None,
    variance: float = 1.0,
    epsilon: float = 1e-3,
    whiten: bool = True,
    sigma: float = 1.0,
    seed: int = 0,
) -> SparseMOGP:
    """One output with classes of which the largest function names the label (Panos, chapter 3):
    "RM-P", "RM-F".

    prior       independent, a bias for each class, one kernel for all
    inducing    points, one set for all classes
    posterior   parsimonious (P) or full (F)
    likelihood  robust-max

    A step reads all classes. Arguments are those of `ovse`, and `epsilon`, the probability of a
    label that the largest function does not name.
    """
    _one_of(method, RobustMaxMethod)
    labels = class_labels(data, classes)
    C = int(labels.max()) + 1 if classes is None else classes
    model = SparseMOGP(
        prior=Independent(_kernel(data, lengthscale, variance, seed), functions=C, bias=0.0),
        inducing=(
            inducing
            if isinstance(inducing, InducingPoints)
            else kmeans_points(data, inducing, seed=seed)
        ),
        likelihood=[RobustMax(C, epsilon, nodes=10)],
        names=data.schema,
        posterior=_posterior(method, whiten, sigma),
    )
    _match_start(model, sigma)
    return model


def ovse_linear(
    data: MultiOutputData, classes: int | None = None, *, penalty: float = 1.0, rivals: int = 1
) -> LinearOneVsEach:
    """OvsE-LIN: linear scores trained with the one-vs-each bound, the baseline of `ovse`.

    Args:
        data: labels 0, 1, … of one output; every class has rows.
        classes: number of classes; the largest label and one if None.
        penalty: on the squared weights.
        rivals: classes with which a step compares the one it reads.
    """
    labels = class_labels(data, classes)
    C = int(labels.max()) + 1 if classes is None else classes
    return LinearOneVsEach(C, data.input_dim, penalty, rivals, data.schema)


def class_points(data: MultiOutputData, labels: Array, count: int, seed: int = 0) -> InducingPoints:
    """For each class the centres of `count` clusters of its own inputs, `[C, M, P]`.

    A class with fewer distinct inputs than that sets the number for all.
    """
    X = data.inputs(0)
    own = [np.unique(X[labels == k], axis=0) for k in range(int(labels.max()) + 1)]
    fewest = min(map(len, own))
    if count > fewest:
        warnings.warn(
            f"{count} inducing points a class were asked for, a class has {fewest} distinct inputs:"
            f" using {fewest}.",
            stacklevel=3,
        )
    sets = [kmeans_points(rows, min(count, fewest), seed=seed).Z.numpy() for rows in own]
    return InducingPoints(np.stack(sets))


def _comparisons(f: Marginals, nodes: int) -> tf.Tensor:
    r"""$\sum_i\sum_\ell \mathbb E\log\sigma(f_k - f_\ell)$ for moments `[N, 1 + s]`, first those of
    $f_k$.
    """
    mean, var = f.mean[:, :1] - f.mean[:, 1:], f.var[:, :1] + f.var[:, 1:]
    return tf.reduce_sum(expected_log_sigmoid(mean, var, nodes))


def _one_of(method: str, methods: Any) -> None:
    if method not in get_args(methods):
        raise ValueError(f"method={method!r}; choose one of {', '.join(get_args(methods))}.")


def _kernel(
    data: MultiOutputData, lengthscale: float | None, variance: float, seed: int
) -> SquaredExponential:
    start = start_lengthscales(data.X, "median", seed) if lengthscale is None else lengthscale
    return SquaredExponential(variance=variance, lengthscales=start)


def _posterior(method: str, whiten: bool, sigma: float) -> Posterior:
    return Parsimonious(sigma) if "-P" in method else Full(whiten)


def _match_start(model: SparseMOGP, sigma: float) -> None:
    if isinstance(model.posterior, Full):
        start_like_parsimonious(model.posterior, model.inducing.Kuu(model.prior.kernels), sigma)
