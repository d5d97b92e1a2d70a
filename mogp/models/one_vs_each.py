"""Models of one output with many classes: one-vs-each with partial updates, and a linear baseline.

Their constructors are in `mogp.models.multiclass`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mogp.data import MultiOutputData, Names, Scaling, Schema
from mogp.data.batches import Batch, gather_rows, input_rows
from mogp.data.class_batches import ClassBatch, ClassBatches, class_labels
from mogp.data.labels import LabelData
from mogp.inducing import InducingPoints
from mogp.kernels import kernels_of, parameters_read_once, take_rows
from mogp.kernels.products import inner
from mogp.likelihoods import OneVsEach
from mogp.likelihoods.one_vs_each import expected_log_sigmoid
from mogp.models.base import MOGP, Data
from mogp.models.sparse import SparseMOGP
from mogp.optimizers import Problem
from mogp.posteriors import Posterior, latents_first
from mogp.priors import Independent, Marginals, View

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
        names, scaling: see `SparseMOGP`.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> data = MultiOutputData.from_arrays(np.linspace(0, 1, 6), ["a", "b", "c"] * 2)

    >>> from mogp.models import ovse
    >>> model = ovse(data, inducing=2)
    >>> type(model).__name__, model.num_classes, model.predict_classes([0.5]).shape
    ('OneVsEachMOGP', 3, (1,))
    """

    def __init__(
        self,
        prior: Independent,
        inducing: InducingPoints,
        likelihood: OneVsEach,
        posterior: Posterior | None = None,
        rivals: int = 1,
        names: Names = None,
        scaling: Scaling | None = None,
    ) -> None:
        if prior.bias is None:
            raise ValueError("one-vs-each needs a bias for each class: give the prior bias=0.0.")
        if rivals < 1:
            raise ValueError(f"rivals={rivals}; a class is compared with at least one other.")
        super().__init__(prior, inducing, [likelihood], posterior, names, scaling=scaling)
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
            return super().batches(data, None, seed)
        return ClassBatches(
            self.scaled(data), size, seed, classes=self.num_classes, rivals=self.rivals
        )

    @property
    def _all_softmax(self) -> bool:
        """Not for the recipe: its batches are not those of other models of classes."""
        return False

    def problem(
        self, data: Data | Callable[[Any], Any], size: Any = None, seed: int = 0
    ) -> Problem:
        """See `MOGP.problem`; a batch of one class has the prior of that class alone, `C` times."""
        made = super().problem(data, size, seed)
        one_class = isinstance(made.batches, ClassBatches)
        return replace(made, share=1 / self.num_classes) if one_class else made

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
        N = X.shape[0]
        blocks = [
            gather_rows(X, range(start, min(start + _ROWS_AT_ONCE, N)))
            for start in range(0, N, _ROWS_AT_ONCE)
        ]
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
        names, scaling: see `SparseMOGP`.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> data = MultiOutputData.from_arrays(np.linspace(0, 1, 6), ["a", "b", "c"] * 2)

    >>> from mogp.models import LinearOneVsEach
    >>> model = LinearOneVsEach(classes=3, inputs=1, names=data.schema)
    >>> model.columns
    (('output 0', 'a'), ('output 0', 'b'), ('output 0', 'c'))
    """

    reads_sparse = True

    def __init__(
        self,
        classes: int,
        inputs: int,
        penalty: float = 1.0,
        rivals: int = 1,
        names: Names = None,
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__()
        self.scaling = scaling
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
            return super().batches(data, None, seed)
        return ClassBatches(
            self.scaled(data), size, seed, classes=self.num_classes, rivals=self.rivals
        )

    def elbo(self, data: ClassBatch | Batch | MultiOutputData) -> tf.Tensor:
        """The penalised objective: exact on all the data, and without bias on the batch of a
        class.
        """
        if isinstance(data, ClassBatch):
            weights, bias = (
                tf.gather(p.unconstrained_variable, data.classes) for p in (self.weights, self.bias)
            )
            scores = tf.transpose(inner(weights, data.X)) + bias
            compared = tf.reduce_sum(tf.math.log_sigmoid(scores[:, :1] - scores[:, 1:]))
            return self.num_classes * (
                data.weight * compared - 0.5 * self.penalty * tf.reduce_sum(weights[0] ** 2)
            )
        batch = self.scaled(data).full() if isinstance(data, MultiOutputData) else data
        own = batch.outputs[0]
        scores = self.scores(batch.X if own.rows is None else gather_rows(batch.X, own.rows))
        of_label = tf.gather(scores, tf.cast(own.Y[:, 0], tf.int64), batch_dims=1)
        compared = tf.reduce_sum(tf.math.log_sigmoid(of_label[:, None] - scores), -1) + np.log(2.0)
        return tf.reduce_sum(own.weight * compared) - 0.5 * self.penalty * tf.reduce_sum(
            self.weights**2
        )

    def scores(self, X: tf.Tensor) -> tf.Tensor:
        """`[N, C]` at `X [N, P]`, as the kernels of other models read it: see `at`."""
        return tf.transpose(inner(tf.convert_to_tensor(self.weights), X)) + self.bias

    def _log_densities(self, data: MultiOutputData) -> dict[str, tf.Tensor]:
        """Log softmax of the labels."""
        X = input_rows(data.inputs(0))(None)
        log_p = tf.nn.log_softmax(self.scores(X))
        labels = tf.cast(data.outputs[0].Y[:, 0], tf.int64)
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


def _comparisons(f: Marginals, nodes: int) -> tf.Tensor:
    r"""$\sum_i\sum_\ell \mathbb E\log\sigma(f_k - f_\ell)$ for moments `[N, 1 + s]`, first those of
    $f_k$.
    """
    mean, var = f.mean[:, :1] - f.mean[:, 1:], f.var[:, :1] + f.var[:, 1:]
    return tf.reduce_sum(expected_log_sigmoid(mean, var, nodes))
