"""EM for class labels of several annotators: the loop, and models of the classes before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.preprocessing import StandardScaler

from mogp.data import Array, MultiOutputData
from mogp.models.consensus.iterative import Climber, check_positive, design
from mogp.models.consensus.voting import check_classes, votes_of

__all__ = ["ClassEM", "ConstantClasses", "LogisticClasses"]


class ConstantClasses:
    """The same probabilities of the classes everywhere, with a pseudo-count."""

    def __init__(self, X: Array, classes: int, smoothing: float) -> None:
        self.smoothing, self.probabilities = smoothing, np.full(classes, 1 / classes)

    def fit(self, X: Array, targets: Array) -> None:
        """Take the shares of the classes in `targets [N, K]`."""
        counts = targets.sum(0) + self.smoothing
        self.probabilities = counts / counts.sum()

    def log_classes(self, X: Array) -> Array:
        """Log probabilities `[N, K]`."""
        return np.tile(np.log(self.probabilities), (len(X), 1))

    def penalty(self) -> float:
        """What the pseudo-count takes off the objective."""
        return -self.smoothing * float(np.log(self.probabilities).sum())


class LogisticClasses:
    r"""Logistic regression on standardised $x$, with weights `W [P + 1, K]` that start at zero.

    $$\log p_k(x) = \log \mathrm{softmax}_k (W^\top [1, x]).$$
    """

    def __init__(self, X: Array, classes: int, ridge: float) -> None:
        self.scaler, self.ridge = StandardScaler().fit(X), ridge
        self.W = np.zeros((X.shape[1] + 1, classes))

    def fit(self, X: Array, targets: Array) -> None:
        r"""From the last `W`, increase $\sum_{nk} t_{nk} \log p_k(x_n)$ less the penalty.

        `targets [N, K]` are $t$.
        """
        D, weights = design(self.scaler, X), targets.sum(1, keepdims=True)
        slopes = np.ones_like(self.W)
        slopes[0] = 0

        def loss(flat: Array) -> tuple[float, Array]:
            W = flat.reshape(slopes.shape)
            log_p = log_softmax(D @ W, 1)
            gradient = D.T @ (weights * np.exp(log_p) - targets) + self.ridge * slopes * W
            penalty = 0.5 * self.ridge * np.sum(slopes * W**2)
            return penalty - np.sum(targets * log_p), gradient.ravel()

        options = {"maxiter": 50, "ftol": 1e-10, "gtol": 1e-6}
        found = minimize(loss, self.W.ravel(), jac=True, method="L-BFGS-B", options=options)
        self.W = found.x.reshape(slopes.shape)

    def log_classes(self, X: Array) -> Array:
        """Log probabilities `[N, K]` at `X [N, P]`."""
        log_p: Array = log_softmax(design(self.scaler, X) @ self.W, 1)
        return log_p

    def penalty(self) -> float:
        """What the ridge takes off the objective."""
        return 0.5 * self.ridge * float(np.sum(self.W[1:] ** 2))


class ClassEM(Climber, ABC):
    """EM for class labels: `_maximise` and `_expect` in turn.

    `kind` is the model of the classes before any annotation is seen, and `setting` its setting.
    """

    def __init__(
        self,
        classes: int,
        kind: type[ConstantClasses | LogisticClasses],
        setting: float,
        smoothing: float,
        iterations: int,
        tolerance: float,
    ) -> None:
        super().__init__(iterations, tolerance)
        check_classes(classes)
        check_positive(smoothing=smoothing)
        self.classes, self.smoothing, self._kind, self._setting = classes, smoothing, kind, setting

    def fit(self, data: MultiOutputData) -> Self:
        """Run EM until an iteration gains less than `tolerance` of the objective."""
        votes, X = votes_of(data, self.classes), data.inputs(0)
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
        """Set the parameters, given the expectations `hidden` of the hidden variables.

        Returns the weights `[N, K]` to fit the classes to.
        """

    @abstractmethod
    def _expect(self, log_p: Array, votes: Array) -> tuple[Array, float]:
        """Expectations of the hidden variables, given the parameters.

        Also the penalised log likelihood of the parameters.
        """
