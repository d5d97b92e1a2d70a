"""Annotators who either know or guess: MA-DGRL."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mogp.data import Array
from mogp.models.consensus.class_em import ClassEM, LogisticClasses
from mogp.models.consensus.iterative import check_positive, everywhere

__all__ = ["DGRL"]


class DGRL(ClassEM):
    r"""MA-DGRL (Rodrigues et al. 2013): annotators answer by a regression, or at random; by EM.

    $$z_n^r \sim \mathrm{Bern}(\phi_r), \qquad
      p(y_n^r = k \mid z_n^r) = p_k(x_n)^{z_n^r}\, K^{-(1 - z_n^r)}, \qquad
      p_k(x) = \mathrm{softmax}_k(W^\top [1, x]),$$

    with standardised $x$. Starting from $\lambda_n^r = \tfrac12$ for $\mathbb E z_n^r$, with $a$ =
    `smoothing` and $N_r$ the number of labels of annotator $r$,

    $$\phi_r = \frac{a + \sum_{n : r \in R_n} \lambda_n^r}{2a + N_r}, \qquad
      W \leftarrow \arg\max_W \sum_n \sum_{r \in R_n} \lambda_n^r \log p_{y_n^r}(x_n)
        - \tfrac\rho2 \|W_{1:}\|^2, \qquad
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
        check_positive(ridge=ridge)
        super().__init__(classes, LogisticClasses, ridge, smoothing, iterations, tolerance)

    def reliability(self, Xnew: npt.ArrayLike) -> tuple[Array, Array]:
        r"""$\phi_r$ at every input, with variance zero, `[N, R]`."""
        return everywhere(self._inputs(Xnew), self.phi_)

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
        penalty = self.smoothing * (log_phi + log_rest).sum()
        return self.responsibility_, float((observed * evidence).sum() + penalty)
