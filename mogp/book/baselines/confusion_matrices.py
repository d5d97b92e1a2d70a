"""A confusion matrix for each annotator: Dawid and Skene, and MA-LFC-C."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from mogp.data import Array, MultiOutputData
from mogp.models.consensus.class_em import ClassEM, ConstantClasses, LogisticClasses
from mogp.models.consensus.iterative import check_positive
from mogp.models.consensus.voting import shares_of, votes_of, with_column

__all__ = ["LFC", "DawidSkene"]


class ConfusionEM(ClassEM):
    """EM for a hidden class of each row and a confusion matrix of each annotator."""

    posterior_: Array
    confusion_: Array

    def labels(self, data: MultiOutputData) -> MultiOutputData:
        """The most probable class of each row given its annotations, in one column."""
        X, votes = self._inputs(data.inputs(0)), votes_of(data, self.classes)
        if votes.shape[1] != self._annotators:
            raise ValueError(
                f"the data have {votes.shape[1]} annotators, {type(self).__name__} was fitted to"
                f" {self._annotators}; give a column for each of those, masked where an annotator"
                " is missing."
            )
        joint = self._joint(self._class_model.log_classes(X), votes)
        return with_column(data, np.argmax(joint, 1))

    def reliability(self, Xnew: npt.ArrayLike) -> tuple[Array, Array]:
        r"""Mean and variance `[N, R]` of $\Psi_{rkk}$ over the classes $k \sim p(x)$."""
        p, right = self.predict_y(Xnew)[0], np.einsum("rkk->kr", self.confusion_)
        mean = p @ right
        return mean, np.maximum(p @ right**2 - mean**2, 0.0)

    def _joint(self, log_p: Array, votes: Array) -> Array:
        """Log probabilities `[N, K]` of class and annotations."""
        joint: Array = log_p + np.einsum("nrj,rkj->nk", votes, np.log(self.confusion_))
        return joint

    def _start(self, votes: Array) -> Array:
        return shares_of(votes)

    def _maximise(self, votes: Array, hidden: Array) -> Array:
        counts = np.einsum("nk,nrj->rkj", hidden, votes) + self.smoothing
        self.confusion_ = counts / counts.sum(2, keepdims=True)
        return hidden

    def _expect(self, log_p: Array, votes: Array) -> tuple[Array, float]:
        joint = self._joint(log_p, votes)
        evidence = logsumexp(joint, 1)
        self.posterior_ = np.exp(joint - evidence[:, None])
        penalty = self.smoothing * np.log(self.confusion_).sum()
        return self.posterior_, float(evidence.sum() + penalty)


class DawidSkene(ConfusionEM):
    r"""Dawid and Skene (1979): a confusion matrix for each annotator, by EM; no inputs.

    $$c_n \sim \pi, \qquad p(y_n^r = j \mid c_n = k) = \Psi_{rkj}.$$

    Starting from the vote shares $\mu_{nk}$, with $a$ = `smoothing`,

    $$\pi_k \propto a + \sum_n \mu_{nk}, \qquad
      \Psi_{rkj} \propto a + \sum_{n : r \in R_n} \mu_{nk} [y_n^r = j], \qquad
      \mu_{nk} \propto \pi_k \prod_{r \in R_n} \Psi_{rk y_n^r}$$

    never decrease the penalised log likelihood

    $$\sum_n \log \sum_k \pi_k \prod_{r \in R_n} \Psi_{rk y_n^r}
      + a \sum_k \log \pi_k + a \sum_{rkj} \log \Psi_{rkj}.$$

    The pseudo-count $a$ keeps probabilities positive; an annotator without labels gets uniform
    confusions. As the model has no inputs, `predict_y` is the prior everywhere: train a classifier
    on `labels(data)`.

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
        super().__init__(classes, ConstantClasses, smoothing, smoothing, iterations, tolerance)

    @property
    def prior_(self) -> Array:
        r"""$\pi$ `[K]`."""
        prior: Array = self.predict_y(np.zeros((1, self._input_dim)))[0][0]
        return prior


class LFC(ConfusionEM):
    r"""MA-LFC-C (Raykar et al. 2010): logistic regression and confusion matrices, by EM.

    $$p(c_n = k) = p_k(x_n) = \mathrm{softmax}_k(W^\top [1, x_n]), \qquad
      p(y_n^r = j \mid c_n = k) = \Psi_{rkj},$$

    with standardised $x$ and a matrix $\Psi_r$ for each annotator. For two classes $\Psi_{r11}$ is
    the sensitivity $\alpha_r$ and $\Psi_{r00}$ the specificity $\beta_r$. Starting from the vote
    shares $\mu_{nk}$, with $a$ = `smoothing`,

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
        check_positive(ridge=ridge)
        super().__init__(classes, LogisticClasses, ridge, smoothing, iterations, tolerance)
