"""A noise variance for each annotator of real values: MA-LFCR and MA-GPR."""

from __future__ import annotations

import warnings
from typing import Self

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.conditionals.util import base_conditional_with_lm
from gpflow.utilities import positive
from sklearn.preprocessing import StandardScaler

from mogp.data import Array, MultiOutputData, Output
from mogp.linalg import cholesky, log_evidence
from mogp.models.consensus.iterative import Baseline, Climber, check_positive, design, everywhere
from mogp.models.consensus.voting import annotations_of
from mogp.optimizers.line_search import LineSearch

__all__ = ["LFCR", "AnnotatorGPR"]

FLOOR = 1e-6
"""Noise variances stay above this share of the variance of all annotations."""


class LFCR(Climber):
    r"""MA-LFCR (Raykar et al. 2010): linear regression, a noise precision for each annotator.

    $$y_n^r \sim \mathcal N(w^\top [1, x_n], \tau_r^{-1}).$$

    Starting from equal precisions, the likelihood is maximised in turn over $w$ and the precisions,

    $$s_n = \sum_{r \in R_n} \tau_r, \quad \hat y_n = s_n^{-1} \sum_{r \in R_n} \tau_r y_n^r, \quad
      w = \arg\min_w \sum_n s_n (\hat y_n - w^\top [1, x_n])^2, \quad
      \tau_r^{-1} = \operatorname{mean}_{n : r \in R_n} (y_n^r - w^\top [1, x_n])^2.$$

    The weights $s_n$ are all the same where every annotator has a value for every row. Variances
    $\tau_r^{-1}$ stay above 1e-6 of the variance of all annotations; an annotator without values
    gets the mean over all annotations of $\tau_r^{-1}$. The variance of a prediction is that of the
    weighted least-squares estimate, $[1, x]^\top (\sum_n s_n [1, x_n] [1, x_n]^\top)^{-1} [1, x]$.

    Args:
        iterations: at most.
        tolerance: of the gain in log likelihood in an iteration, as a share.

    Attributes:
        weights_: $w$ `[P + 1]`, for standardised inputs.
        noise_: $\tau^{-1}$ `[R]`.
        log_likelihood_: after each iteration; it never decreases.
    """

    weights_: Array
    noise_: Array

    def __init__(self, iterations: int = 500, tolerance: float = 1e-10) -> None:
        super().__init__(iterations, tolerance)

    def fit(self, data: MultiOutputData) -> Self:
        """Alternate until an iteration gains less than `tolerance` of the log likelihood."""
        own, X = annotations_of(data), data.inputs(0)
        Y, observed, labels = own.Y, own.observed, own.observed.sum(0)
        floor = FLOOR * spread_of(own)
        self._scaler = StandardScaler().fit(X)
        D = design(self._scaler, X)
        self.noise_ = np.ones(Y.shape[1])

        def step() -> float:
            tau = observed / self.noise_
            s = tau.sum(1)
            root = np.sqrt(s)[:, None]
            aim = root[:, 0] * (tau * Y).sum(1) / s
            self.weights_ = np.linalg.lstsq(root * D, aim, rcond=None)[0]
            squares = np.where(observed, Y - (D @ self.weights_)[:, None], 0.0) ** 2
            noise = np.maximum(squares.sum(0) / np.maximum(labels, 1), floor)
            self.noise_ = with_unseen(noise, labels)
            log_scale = observed * np.log(2 * np.pi * self.noise_)
            return -0.5 * float((log_scale + squares / self.noise_).sum())

        self._climb(step)
        s = (observed / self.noise_).sum(1)
        self._covariance = np.linalg.pinv(D.T @ (s[:, None] * D), hermitian=True)
        return self._fitted_to(data)

    def predict_y(self, Xnew: npt.ArrayLike) -> tuple[Array, Array]:
        """Mean and variance `[N, 1]` of the value without noise at `Xnew [N, P]`."""
        X = self._inputs(Xnew)
        D = design(self._scaler, X)
        var = np.einsum("np,pq,nq->n", D, self._covariance, D)
        return (D @ self.weights_)[:, None], var[:, None]

    def reliability(self, Xnew: npt.ArrayLike) -> tuple[Array, Array]:
        r"""Noise variances $\tau_r^{-1}$ at every input, with variance zero, `[N, R]`."""
        return everywhere(self._inputs(Xnew), self.noise_)


class AnnotatorGPR(Baseline):
    r"""MA-GPR (Groot et al. 2011): GP regression, a noise variance for each annotator.

    $$f \sim \mathcal{GP}(c, k), \qquad y_n^r \sim \mathcal N(f(x_n), \sigma_r^2).$$

    As a function of $f_n = f(x_n)$ the annotations of a row are one observation,

    $$\prod_{r \in R_n} \mathcal N(y_n^r \mid f_n, \sigma_r^2)
      = g_n\, \mathcal N(\tilde y_n \mid f_n, s_n), \quad
      s_n^{-1} = \sum_{r \in R_n} \sigma_r^{-2}, \quad
      \tilde y_n = s_n \sum_{r \in R_n} \sigma_r^{-2} y_n^r, \quad
      g_n = \sqrt{2 \pi s_n} \prod_{r \in R_n} \mathcal N(y_n^r \mid \tilde y_n, \sigma_r^2),$$

    so that
    $\log p(Y) = \log \mathcal N(\tilde y \mid c 1, K + \operatorname{diag} s) + \sum_n \log g_n$,
    with matrices of size $N$. L-BFGS maximises it over $\sigma_r^2$ and the lengthscale and the
    variance of an isotropic RBF kernel $k$ (paper L fixes the variance at one in CCGPMA, where
    mixing weights stand for it). The constant $c$ is the mean of the rows' averages. Noise
    variances stay above 1e-6 of the variance of all annotations; an annotator without values gets
    the mean over all annotations of $\sigma_r^2$.

    Exact: time grows as $N^3$. With more than `most_rows` rows a random subset of that size is
    used, with a warning.

    Args:
        steps: of L-BFGS, at most.
        most_rows: the largest number of rows that is used whole.
        seed: of the subset.

    Attributes:
        kernel: $k$.
        noise_: $\sigma^2$ `[R]`.
        log_likelihood_: $\log p(Y)$ of the rows that were used.
    """

    kernel: gpflow.kernels.Kernel
    noise_: Array
    log_likelihood_: float

    def __init__(self, steps: int = 200, most_rows: int = 2000, seed: int = 0) -> None:
        check_positive(steps=steps, most_rows=most_rows)
        self.steps, self.most_rows, self.seed = steps, most_rows, seed

    def fit(self, data: MultiOutputData) -> Self:
        """Maximise the marginal likelihood from one start.

        The lengthscale starts at a tenth of the diagonal of the inputs.
        """
        own = annotations_of(data)
        rows = np.arange(len(own))
        if len(own) > self.most_rows:
            rng = np.random.default_rng(self.seed)
            rows = np.sort(rng.choice(rows, self.most_rows, replace=False))
            warnings.warn(
                f"{len(own)} rows are more than most_rows={self.most_rows}: AnnotatorGPR uses a"
                " random subset of that size. Raise most_rows to use more; time grows as its"
                " cube.",
                stacklevel=2,
            )
        X, Y, observed = data.inputs(0)[rows], own.Y[rows], own.observed[rows]
        means = np.average(Y, axis=1, weights=observed)
        spread, labels = spread_of(own), observed.sum(0)
        apart = np.where(observed, Y - means[:, None], 0.0) ** 2
        noise = np.maximum(apart.sum(0) / np.maximum(labels, 1), 0.1 * spread)
        width = max(float(np.linalg.norm(np.ptp(X, axis=0))) / 10, 1e-3)

        self._X, self._Y, self._observed = (
            tf.constant(a, gpflow.default_float()) for a in (X, Y, observed)
        )
        self._mean = float(means.mean())
        self.kernel = gpflow.kernels.SquaredExponential()
        self.kernel.variance = gpflow.Parameter(spread, transform=positive(base="exp"))
        self.kernel.lengthscales = gpflow.Parameter(width, transform=positive(base="exp"))
        self._noise = gpflow.Parameter(noise, transform=positive(lower=FLOOR * spread, base="exp"))
        variables = [*self.kernel.trainable_variables, *self._noise.trainable_variables]
        LineSearch().minimize(
            lambda: -self._log_evidence(),
            variables,
            options={"maxiter": self.steps},
            tf_fun_args={"autograph": False},
        )
        self.noise_ = with_unseen(self._noise.numpy(), labels)
        self.log_likelihood_ = float(self._log_evidence())
        y, s = self._merged()
        self._factor = cholesky(self.kernel(self._X) + tf.linalg.diag(s), jitter=0.0)
        self._target = y - self._mean
        return self._fitted_to(data)

    def predict_y(self, Xnew: npt.ArrayLike) -> tuple[Array, Array]:
        """Mean and variance `[N, 1]` of the value without noise at `Xnew [N, P]`."""
        X = tf.constant(self._inputs(Xnew), gpflow.default_float())
        mean, var = base_conditional_with_lm(
            self.kernel(self._X, X),
            self._factor,
            self.kernel(X, full_cov=False),
            self._target[:, None],
        )
        return mean.numpy() + self._mean, var.numpy()

    def reliability(self, Xnew: npt.ArrayLike) -> tuple[Array, Array]:
        r"""Noise variances $\sigma_r^2$ at every input, with variance zero, `[N, R]`."""
        return everywhere(self._inputs(Xnew), self.noise_)

    def _merged(self) -> tuple[tf.Tensor, tf.Tensor]:
        r"""$\tilde y$ and $s$, `[N]`."""
        precision = self._observed / self._noise
        s = 1 / tf.reduce_sum(precision, 1)
        return s * tf.reduce_sum(precision * self._Y, 1), s

    def _log_evidence(self) -> tf.Tensor:
        y, s = self._merged()
        apart = tf.square(self._Y - y[:, None]) / self._noise
        log_g = -0.5 * tf.reduce_sum(
            self._observed * (tf.math.log(2 * np.pi * self._noise) + apart)
        )
        log_g += 0.5 * tf.reduce_sum(tf.math.log(2 * np.pi * s))
        return log_evidence(y - self._mean, self.kernel(self._X) + tf.linalg.diag(s)) + log_g


def spread_of(own: Output) -> float:
    """The variance of all annotations; one if they are all the same."""
    return float(np.var(own.Y[own.observed])) or 1.0


def with_unseen(noise: Array, labels: Array) -> Array:
    """Noise variances `[R]`, with their mean over all annotations for annotators who have none."""
    return np.where(labels > 0, noise, np.average(noise, weights=labels))
