r"""Baselines for learning from several annotators (Giraldo, paper L; specification §9.4).

The data have one output, and a target column for each of $R$ annotators: `data[0].Y [N, R]`, of
which the entries `data[0].observed [N, R]` count. $R_n$ are the annotators of row $n$. Class labels
are $0, \dots, K - 1$.

Every baseline has `fit(data)`, `predict_y(X)` and `reliability(X)`. Of classes, `predict_y` gives
probabilities $p$ `[N, K]` and their variances $p (1 - p)$, `reliability` the probability that an
annotator is right `[N, R]`. Of values, `predict_y` gives the mean and the variance `[N, 1]` of the
value without noise, `reliability` the variance of the noise of each annotator `[N, R]`. The second
matrix of `reliability` holds the variances of the first.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Self

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.conditionals.util import base_conditional_with_lm
from gpflow.utilities import positive
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import StandardScaler

from mogp.data import Array, MultiOutputData, Output
from mogp.linalg import cholesky, log_evidence
from mogp.optimizers.line_search import LineSearch

__all__ = [
    "DGRL",
    "LFC",
    "LFCR",
    "AnnotatorGPR",
    "DawidSkene",
    "average",
    "majority_vote",
    "vote_shares",
]

_FLOOR = 1e-6
"""Noise variances stay above this share of the variance of all annotations."""


def majority_vote(data: MultiOutputData, classes: int) -> MultiOutputData:
    """The most frequent label of each row, in one column at the same inputs.

    Of labels that are as frequent in a row, the one that is more frequent among all annotations
    wins; of those that are as frequent there too, the smallest.
    """
    counts = _votes(data, classes).sum(1)
    everywhere = counts.sum(0)
    return _with_column(data, np.argmax(counts + everywhere / (everywhere.sum() + 1), 1))


def vote_shares(data: MultiOutputData, classes: int) -> Array:
    """The share of the annotators of each row who named each class, `[N, K]`."""
    return _shares(_votes(data, classes))


def average(data: MultiOutputData) -> MultiOutputData:
    """The mean of the annotations of each row, in one column at the same inputs."""
    own = _annotations(data)
    return _with_column(data, np.average(own.Y, axis=1, weights=own.observed))


class _Baseline:
    """What is known of the data a baseline was fitted to, and the check of inputs against it."""

    _annotators = 0
    _input_dim = 0

    def _fitted_to(self, data: MultiOutputData) -> Self:
        self._annotators, self._input_dim = data[0].Y.shape[1], data.input_dim
        return self

    def _inputs(self, Xnew: npt.ArrayLike) -> Array:
        if not self._annotators:
            raise NotFittedError(f"{type(self).__name__} was not fitted; call fit(data) first.")
        X = np.asarray(Xnew, float)
        X = X[:, None] if X.ndim == 1 else X
        if X.ndim != 2 or X.shape[1] != self._input_dim or not np.isfinite(X).all():
            raise ValueError(
                f"Xnew has shape {X.shape} and {np.sum(~np.isfinite(X))} values that are not"
                f" finite; expected finite inputs [N, {self._input_dim}], as those of the data that"
                f" {type(self).__name__} was fitted to."
            )
        return X


class _Climber(_Baseline):
    """A baseline that is fitted by steps none of which decreases its objective."""

    log_likelihood_: Array

    def __init__(self, iterations: int, tolerance: float) -> None:
        _check_positive(iterations=iterations, tolerance=tolerance)
        self.iterations, self.tolerance = iterations, tolerance

    def _climb(self, step: Callable[[], float]) -> None:
        """Take steps, each of which returns the objective, until one gains less than `tolerance` of
        it.
        """
        trace = [-np.inf]
        for _ in range(self.iterations):
            trace.append(step())
            if trace[-1] - trace[-2] <= self.tolerance * abs(trace[-1]):
                break
        else:
            warnings.warn(
                f"{type(self).__name__} still gained more than tolerance={self.tolerance} in the"
                f" last of {self.iterations} iterations; raise iterations or tolerance.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.log_likelihood_ = np.array(trace[1:])


class _Prior:
    """The same log probabilities of the classes everywhere, with a pseudo-count."""

    def __init__(self, X: Array, classes: int, smoothing: float) -> None:
        self.smoothing, self.probabilities = smoothing, np.full(classes, 1 / classes)

    def fit(self, X: Array, targets: Array) -> None:
        counts = targets.sum(0) + self.smoothing
        self.probabilities = counts / counts.sum()

    def log_classes(self, X: Array) -> Array:
        return np.tile(np.log(self.probabilities), (len(X), 1))

    def penalty(self) -> float:
        return -self.smoothing * float(np.log(self.probabilities).sum())


class _LogisticRegression:
    r"""$\log p_k(x) = \log \mathrm{softmax}_k (W^\top [1, x])$ for standardised $x$; `W [P + 1, K]`
    starts at zero.
    """

    def __init__(self, X: Array, classes: int, ridge: float) -> None:
        self.scaler, self.ridge = StandardScaler().fit(X), ridge
        self.W = np.zeros((X.shape[1] + 1, classes))

    def fit(self, X: Array, targets: Array) -> None:
        r"""From the last `W`, increase $\sum_{nk} t_{nk} \log p_k(x_n)$ less the penalty;
        `targets [N, K]` are $t$.
        """
        D, weights, slopes = (
            _design(self.scaler, X),
            targets.sum(1, keepdims=True),
            np.ones_like(self.W),
        )
        slopes[0] = 0

        def loss(flat: Array) -> tuple[float, Array]:
            W = flat.reshape(slopes.shape)
            log_p = log_softmax(D @ W, 1)
            gradient = D.T @ (weights * np.exp(log_p) - targets) + self.ridge * slopes * W
            return (
                0.5 * self.ridge * np.sum(slopes * W**2) - np.sum(targets * log_p),
                gradient.ravel(),
            )

        options = {"maxiter": 50, "ftol": 1e-10, "gtol": 1e-6}
        self.W = minimize(
            loss, self.W.ravel(), jac=True, method="L-BFGS-B", options=options
        ).x.reshape(slopes.shape)

    def log_classes(self, X: Array) -> Array:
        log_p: Array = log_softmax(_design(self.scaler, X) @ self.W, 1)
        return log_p

    def penalty(self) -> float:
        return 0.5 * self.ridge * float(np.sum(self.W[1:] ** 2))


class _Classifier(_Climber, ABC):
    """EM for class labels: `_maximise` and `_expect` in turn.

    The probabilities of the classes before any annotation is seen are of a `kind`, with a `setting`
    of its own.
    """

    def __init__(
        self,
        classes: int,
        kind: type[_Prior | _LogisticRegression],
        setting: float,
        smoothing: float,
        iterations: int,
        tolerance: float,
    ) -> None:
        super().__init__(iterations, tolerance)
        _check_classes(classes)
        _check_positive(smoothing=smoothing)
        self.classes, self.smoothing, self._kind, self._setting = classes, smoothing, kind, setting

    def fit(self, data: MultiOutputData) -> Self:
        """Run EM until an iteration gains less than `tolerance` of the objective."""
        votes, X = _votes(data, self.classes), data.inputs(0)
        self._class_model, hidden = self._kind(X, self.classes, self._setting), self._start(votes)

        def step() -> float:
            nonlocal hidden
            self._class_model.fit(X, self._maximise(votes, hidden))
            hidden, value = self._expect(self._class_model.log_classes(X), votes)
            return value - self._class_model.penalty()

        self._climb(step)
        return self._fitted_to(data)

    def predict_y(self, Xnew: npt.ArrayLike) -> tuple[Array, Array]:
        """Class probabilities $p$ `[N, K]` at `Xnew [N, P]`, and $p (1 - p)$."""
        X = self._inputs(Xnew)
        p = np.exp(self._class_model.log_classes(X))
        return p, p * (1 - p)

    @abstractmethod
    def _start(self, votes: Array) -> Array:
        """What the first `_maximise` takes for the expectations of the hidden variables."""

    @abstractmethod
    def _maximise(self, votes: Array, hidden: Array) -> Array:
        """Parameters, given the expectations of the hidden variables; the weights `[N, K]` to fit
        the classes to.
        """

    @abstractmethod
    def _expect(self, log_p: Array, votes: Array) -> tuple[Array, float]:
        """Expectations of the hidden variables, given the parameters, and the penalised log
        likelihood of those.
        """


class _Confusions(_Classifier):
    """EM for a hidden class of each row and a confusion matrix of each annotator."""

    posterior_: Array
    confusion_: Array

    def labels(self, data: MultiOutputData) -> MultiOutputData:
        """The most probable class of each row given its annotations, in one column at the same
        inputs.
        """
        X, votes = self._inputs(data.inputs(0)), _votes(data, self.classes)
        if votes.shape[1] != self._annotators:
            raise ValueError(
                f"the data have {votes.shape[1]} annotators, {type(self).__name__} was fitted to"
                f" {self._annotators}; give a column for each of those, masked where an annotator"
                " is missing."
            )
        return _with_column(
            data, np.argmax(self._joint(self._class_model.log_classes(X), votes), 1)
        )

    def reliability(self, Xnew: npt.ArrayLike) -> tuple[Array, Array]:
        r"""Mean $\sum_k p_k(x)\, \Psi_{rkk}$ and variance over $k \sim p(x)$ of $\Psi_{rkk}$,
        `[N, R]`.
        """
        p, right = self.predict_y(Xnew)[0], np.einsum("rkk->kr", self.confusion_)
        mean = p @ right
        return mean, np.maximum(p @ right**2 - mean**2, 0.0)

    def _joint(self, log_p: Array, votes: Array) -> Array:
        """Log probabilities `[N, K]` of class and annotations."""
        joint: Array = log_p + np.einsum("nrj,rkj->nk", votes, np.log(self.confusion_))
        return joint

    def _start(self, votes: Array) -> Array:
        return _shares(votes)

    def _maximise(self, votes: Array, hidden: Array) -> Array:
        counts = np.einsum("nk,nrj->rkj", hidden, votes) + self.smoothing
        self.confusion_ = counts / counts.sum(2, keepdims=True)
        return hidden

    def _expect(self, log_p: Array, votes: Array) -> tuple[Array, float]:
        joint = self._joint(log_p, votes)
        evidence = logsumexp(joint, 1)
        self.posterior_ = np.exp(joint - evidence[:, None])
        return self.posterior_, float(
            evidence.sum() + self.smoothing * np.log(self.confusion_).sum()
        )


class DawidSkene(_Confusions):
    r"""Dawid and Skene (1979): a class of each row and a confusion matrix of each annotator, by EM;
    no inputs.

    $$c_n \sim \pi, \qquad p(y_n^r = j \mid c_n = k) = \Psi_{rkj}.$$

    Starting from the vote shares $\mu_{nk}$, with $a$ = `smoothing`,

    $$\pi_k \propto a + \sum_n \mu_{nk}, \qquad \Psi_{rkj} \propto a + \sum_{n : r \in R_n} \mu_{nk}
      [y_n^r = j], \qquad \mu_{nk} \propto \pi_k \prod_{r \in R_n} \Psi_{rk y_n^r}$$

    never decrease the penalised log likelihood

    $$\sum_n \log \sum_k \pi_k \prod_{r \in R_n} \Psi_{rk y_n^r} + a \sum_k \log \pi_k + a
      \sum_{rkj} \log \Psi_{rkj}.$$

    The pseudo-count $a$ keeps probabilities positive; an annotator without labels gets uniform
      confusions. As the model
    has no inputs, `predict_y` is the prior everywhere: train a classifier on `labels(data)`.

    Args:
        classes: $K$.
        smoothing: $a$, the pseudo-count of every cell of $\pi$ and $\Psi$.
        iterations: of EM, at most.
        tolerance: EM stops when an iteration gains less than this share of the objective.

    Attributes:
        posterior_: $\mu$ `[N, K]`.
        confusion_: $\Psi$ `[R, K, K]`, true class before label.
        log_likelihood_: the objective after each iteration.
    """

    def __init__(
        self, classes: int, smoothing: float = 0.1, iterations: int = 500, tolerance: float = 1e-7
    ) -> None:
        super().__init__(classes, _Prior, smoothing, smoothing, iterations, tolerance)

    @property
    def prior_(self) -> Array:
        r"""$\pi$ `[K]`."""
        prior: Array = self.predict_y(np.zeros((1, self._input_dim)))[0][0]
        return prior


class LFC(_Confusions):
    r"""MA-LFC-C (Raykar et al. 2010): logistic regression and a confusion matrix of each annotator,
    by EM.

    $$p(c_n = k) = p_k(x_n) = \mathrm{softmax}_k(W^\top [1, x_n]), \qquad p(y_n^r = j \mid c_n = k)
      = \Psi_{rkj},$$

    with standardised $x$. For two classes $\Psi_{r11}$ is the sensitivity $\alpha_r$ and
      $\Psi_{r00}$ the specificity
    $\beta_r$. Starting from the vote shares $\mu_{nk}$, with $a$ = `smoothing`,

    $$\Psi_{rkj} \propto a + \sum_{n : r \in R_n} \mu_{nk} [y_n^r = j], \qquad
      W \leftarrow \arg\max_W \sum_{nk} \mu_{nk} \log p_k(x_n) - \tfrac\rho2 \|W_{1:}\|^2, \qquad
      \mu_{nk} \propto p_k(x_n) \prod_{r \in R_n} \Psi_{rk y_n^r}$$

    never decrease the penalised log likelihood (a few L-BFGS steps from the last $W$ stand for the
      maximum)

    $$\sum_n \log \sum_k p_k(x_n) \prod_{r \in R_n} \Psi_{rk y_n^r} + a \sum_{rkj} \log \Psi_{rkj}
      - \tfrac\rho2 \|W_{1:}\|^2.$$

    Args:
        classes: $K$.
        ridge: $\rho$, on all weights but the intercepts.
        smoothing: $a$, the pseudo-count of every cell of $\Psi$; an annotator without labels gets
          uniform confusions.
        iterations: of EM, at most.
        tolerance: EM stops when an iteration gains less than this share of the objective.

    Attributes:
        posterior_: $\mu$ `[N, K]`, of the rows it was fitted to, annotations seen.
        confusion_: $\Psi$ `[R, K, K]`, true class before label.
        log_likelihood_: the objective after each iteration.
    """

    def __init__(
        self,
        classes: int,
        ridge: float = 0.01,
        smoothing: float = 0.1,
        iterations: int = 500,
        tolerance: float = 1e-7,
    ) -> None:
        _check_positive(ridge=ridge)
        super().__init__(classes, _LogisticRegression, ridge, smoothing, iterations, tolerance)


class DGRL(_Classifier):
    r"""MA-DGRL (Rodrigues et al. 2013): annotators answer as a logistic regression does, or at
    random; by EM.

    $$z_n^r \sim \mathrm{Bern}(\phi_r), \qquad p(y_n^r = k \mid z_n^r) = p_k(x_n)^{z_n^r}\, K^{-(1 -
      z_n^r)}, \qquad p_k(x) = \mathrm{softmax}_k(W^\top [1, x]),$$

    with standardised $x$. Starting from $\lambda_n^r = \tfrac12$ for $\mathbb E z_n^r$, with $a$ =
    `smoothing` and $N_r$ the number of labels of annotator $r$,

    $$\phi_r = \frac{a + \sum_{n : r \in R_n} \lambda_n^r}{2a + N_r}, \qquad
      W \leftarrow \arg\max_W \sum_n \sum_{r \in R_n} \lambda_n^r \log p_{y_n^r}(x_n) - \tfrac\rho2
        \|W_{1:}\|^2, \qquad
      \lambda_n^r = \frac{\phi_r\, p_{y_n^r}(x_n)}{\phi_r\, p_{y_n^r}(x_n) + (1 - \phi_r) / K}$$

    never decrease the penalised log likelihood (a few L-BFGS steps from the last $W$ stand for the
    maximum)

    $$\sum_n \sum_{r \in R_n} \log\big(\phi_r\, p_{y_n^r}(x_n) + (1 - \phi_r) / K\big)
      + a \sum_r \log \phi_r (1 - \phi_r) - \tfrac\rho2 \|W_{1:}\|^2.$$

    Args:
        classes: $K$.
        ridge: $\rho$, on all weights but the intercepts.
        smoothing: $a$, the pseudo-count of both values of $z$; an annotator without labels gets
            $\phi_r = 1/2$.
        iterations: of EM, at most.
        tolerance: EM stops when an iteration gains less than this share of the objective.

    Attributes:
        phi_: $\phi$ `[R]`.
        responsibility_: $\lambda$ `[N, R]`, of the rows it was fitted to; zero where there is no
            label.
        log_likelihood_: the objective after each iteration.
    """

    phi_: Array
    responsibility_: Array

    def __init__(
        self,
        classes: int,
        ridge: float = 0.01,
        smoothing: float = 0.1,
        iterations: int = 500,
        tolerance: float = 1e-7,
    ) -> None:
        _check_positive(ridge=ridge)
        super().__init__(classes, _LogisticRegression, ridge, smoothing, iterations, tolerance)

    def reliability(self, Xnew: npt.ArrayLike) -> tuple[Array, Array]:
        r"""$\phi_r$ at every input, with variance zero, `[N, R]`."""
        return _constant(self._inputs(Xnew), self.phi_)

    def _start(self, votes: Array) -> Array:
        half: Array = 0.5 * votes.sum(2)
        return half

    def _maximise(self, votes: Array, hidden: Array) -> Array:
        self.phi_ = (self.smoothing + hidden.sum(0)) / (2 * self.smoothing + votes.sum((0, 2)))
        weights: Array = np.einsum("nr,nrk->nk", hidden, votes)
        return weights

    def _expect(self, log_p: Array, votes: Array) -> tuple[Array, float]:
        observed, log_phi, log_rest = votes.sum(2), np.log(self.phi_), np.log1p(-self.phi_)
        answered = log_phi + np.einsum("nk,nrk->nr", log_p, votes)
        evidence = np.logaddexp(answered, log_rest - np.log(self.classes))
        self.responsibility_ = observed * np.exp(answered - evidence)
        return self.responsibility_, float(
            (observed * evidence).sum() + self.smoothing * (log_phi + log_rest).sum()
        )


class LFCR(_Climber):
    r"""MA-LFCR (Raykar et al. 2010): linear regression with a noise precision $\tau_r$ of each
    annotator.

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
        own, X = _annotations(data), data.inputs(0)
        Y, observed, labels, floor = own.Y, own.observed, own.observed.sum(0), _FLOOR * _spread(own)
        self._scaler = StandardScaler().fit(X)
        D = _design(self._scaler, X)
        self.noise_ = np.ones(Y.shape[1])

        def step() -> float:
            tau = observed / self.noise_
            s = tau.sum(1)
            root = np.sqrt(s)[:, None]
            self.weights_ = np.linalg.lstsq(
                root * D, root[:, 0] * (tau * Y).sum(1) / s, rcond=None
            )[0]
            squares = np.where(observed, Y - (D @ self.weights_)[:, None], 0.0) ** 2
            self.noise_ = _with_unseen(
                np.maximum(squares.sum(0) / np.maximum(labels, 1), floor), labels
            )
            return -0.5 * float(
                (observed * np.log(2 * np.pi * self.noise_) + squares / self.noise_).sum()
            )

        self._climb(step)
        s = (observed / self.noise_).sum(1)
        self._covariance = np.linalg.pinv(D.T @ (s[:, None] * D), hermitian=True)
        return self._fitted_to(data)

    def predict_y(self, Xnew: npt.ArrayLike) -> tuple[Array, Array]:
        """Mean and variance `[N, 1]` of the value without noise at `Xnew [N, P]`."""
        X = self._inputs(Xnew)
        D = _design(self._scaler, X)
        return (D @ self.weights_)[:, None], np.einsum("np,pq,nq->n", D, self._covariance, D)[
            :, None
        ]

    def reliability(self, Xnew: npt.ArrayLike) -> tuple[Array, Array]:
        r"""Noise variances $\tau_r^{-1}$ at every input, with variance zero, `[N, R]`."""
        return _constant(self._inputs(Xnew), self.noise_)


class AnnotatorGPR(_Baseline):
    r"""MA-GPR (Groot et al. 2011): GP regression with a noise variance $\sigma_r^2$ of each
    annotator.

    $$f \sim \mathcal{GP}(c, k), \qquad y_n^r \sim \mathcal N(f(x_n), \sigma_r^2).$$

    As a function of $f_n = f(x_n)$ the annotations of a row are one observation,

    $$\prod_{r \in R_n} \mathcal N(y_n^r \mid f_n, \sigma_r^2) = g_n\, \mathcal N(\tilde y_n \mid
      f_n, s_n), \quad s_n^{-1} = \sum_{r \in R_n} \sigma_r^{-2}, \quad \tilde y_n = s_n \sum_{r \in
        R_n} \sigma_r^{-2} y_n^r, \quad
      g_n = \sqrt{2 \pi s_n} \prod_{r \in R_n} \mathcal N(y_n^r \mid \tilde y_n, \sigma_r^2),$$

    so that
    $\log p(Y) = \log \mathcal N(\tilde y \mid c 1, K + \operatorname{diag} s) + \sum_n \log g_n$,
    with matrices of size $N$. L-BFGS maximises it over $\sigma_r^2$ and the lengthscale and the
    variance of an isotropic RBF kernel $k$ (paper L fixes the variance at one in CCGPMA, where
    mixing weights stand for it). The constant $c$ is the mean of the rows' averages. Noise
    variances stay above 1e-6 of the variance of all annotations; an annotator without values gets
    the mean over all annotations of $\sigma_r^2$.

    Exact: time grows as $N^3$. Of more than `most_rows` rows a random subset of that size is used,
    with a warning.

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
        _check_positive(steps=steps, most_rows=most_rows)
        self.steps, self.most_rows, self.seed = steps, most_rows, seed

    def fit(self, data: MultiOutputData) -> Self:
        """Maximise the marginal likelihood from one start: a lengthscale of a tenth of the diagonal
        of the inputs.
        """
        own = _annotations(data)
        rows = np.arange(len(own))
        if len(own) > self.most_rows:
            rows = np.sort(
                np.random.default_rng(self.seed).choice(rows, self.most_rows, replace=False)
            )
            warnings.warn(
                f"{len(own)} rows are more than most_rows={self.most_rows}: AnnotatorGPR uses a"
                " random subset of that size. Raise most_rows to use more; time grows as its"
                " cube.",
                stacklevel=2,
            )
        X, Y, observed = data.inputs(0)[rows], own.Y[rows], own.observed[rows]
        means = np.average(Y, axis=1, weights=observed)
        spread, labels = _spread(own), observed.sum(0)
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
        self._noise = gpflow.Parameter(noise, transform=positive(lower=_FLOOR * spread, base="exp"))
        variables = [*self.kernel.trainable_variables, *self._noise.trainable_variables]
        LineSearch().minimize(
            lambda: -self._log_evidence(),
            variables,
            options={"maxiter": self.steps},
            tf_fun_args={"autograph": False},
        )
        self.noise_ = _with_unseen(self._noise.numpy(), labels)
        self.log_likelihood_ = float(self._log_evidence())
        y, s = self._merged()
        self._factor, self._target = (
            cholesky(self.kernel(self._X) + tf.linalg.diag(s), jitter=0.0),
            y - self._mean,
        )
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
        return _constant(self._inputs(Xnew), self.noise_)

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


def _constant(X: Array, values: Array) -> tuple[Array, Array]:
    """Values `[R]` that hold at every input, with certainty."""
    mean = np.tile(values, (len(X), 1))
    return mean, np.zeros_like(mean)


def _annotations(data: MultiOutputData) -> Output:
    if data.num_outputs != 1:
        raise ValueError(
            f"the data have {data.num_outputs} outputs; expected one whose target columns are the"
            " annotators: build it with MultiOutputData.from_list([(X, annotations)])."
        )
    return data[0]


def _votes(data: MultiOutputData, classes: int) -> Array:
    """`[N, R, K]`, one where an annotator named a class."""
    _check_classes(classes)
    own = _annotations(data)
    broken = own.observed & ~np.isin(own.Y, np.arange(classes))
    if broken.any():
        n, r = np.argwhere(broken)[0]
        raise ValueError(
            f"output {own.name!r} has {int(broken.sum())} labels that are no class, first at row"
            f" {own.rows[n]} by annotator {r} ({own.Y[n, r]}); expected whole numbers from 0 to"
            f" {classes - 1}. Recode the labels with numpy.unique(labels, return_inverse=True), or"
            " raise the number of classes."
        )
    votes: Array = (own.observed[:, :, None] & (own.Y[:, :, None] == np.arange(classes))).astype(
        float
    )
    return votes


def _shares(votes: Array) -> Array:
    counts = votes.sum(1)
    shares: Array = counts / counts.sum(1, keepdims=True)
    return shares


def _with_column(data: MultiOutputData, column: Array) -> MultiOutputData:
    """The data with one target a row in place of those of the annotators."""
    Y = column[:, None].astype(float)
    return replace(data, outputs=(replace(data[0], Y=Y, observed=np.ones(Y.shape, bool)),))


def _check_classes(classes: int) -> None:
    if not isinstance(classes, int | np.integer) or classes < 2:
        raise ValueError(
            f"classes={classes!r}; expected the number of classes, a whole number of at least 2."
        )


def _check_positive(**settings: float) -> None:
    for name, value in settings.items():
        if not value > 0:
            raise ValueError(f"{name}={value}; expected a number above zero.")


def _design(scaler: StandardScaler, X: Array) -> Array:
    """`[N, P + 1]`, a column of ones and the standardised inputs."""
    return np.column_stack([np.ones(len(X)), scaler.transform(X)])


def _spread(own: Output) -> float:
    """The variance of all annotations; one if they are all the same."""
    return float(np.var(own.Y[own.observed])) or 1.0


def _with_unseen(noise: Array, labels: Array) -> Array:
    """Noise variances `[R]`, with their mean over all annotations for annotators who have none."""
    return np.where(labels > 0, noise, np.average(noise, weights=labels))
