"""How models of classes are trained unless the caller of `fit` says otherwise."""

from __future__ import annotations

from mogp.likelihoods import PerOutput, Softmax
from mogp.models.base import MOGP, Data
from mogp.optimizers import Adam, Falling, Natural, Optimizer
from mogp.posteriors import Full, Posterior

CLASS_ROWS = 300
"""Rows a step where all outputs are classes and there are more."""
_FLAT = 1e-2


class TrainsClasses(MOGP):
    r"""The recipe of sparse models all of whose outputs are classes with a softmax, or a bound on
    it.

    A step costs as much as its rows, and has noise of its own in the bounds that sample classes or
    draw functions: 300 rows are enough. $q(\mathbf u)$ moves by natural gradients, all else by
    Adam, with one evaluation for both. Step sizes fall, and the training ends, where the mean
    objective rises by less than .01 nats a target in 50 steps. With lengthscales, weights and
    inducing inputs for each latent GP the bound goes on rising for thousands of steps, for several
    times the cost: new labels of some data then become more probable, of others less.
    """

    posterior: Posterior
    likelihood: PerOutput

    def usual_optimizer(self) -> Optimizer:
        """See `MOGP.usual_optimizer`."""
        if not self._all_softmax:
            return super().usual_optimizer()
        q = self.posterior
        natural = isinstance(q, Full) and q.q_mu.trainable and q.q_sqrt.trainable
        inner: Optimizer = Natural(Adam(0.03), gamma=0.1, warm_up=20) if natural else Adam(0.05)
        return Falling(inner, tolerance=_FLAT)

    def usual_rows(self, data: Data) -> int | None:
        """See `MOGP.usual_rows`."""
        if not self._all_softmax:
            return super().usual_rows(data)
        return CLASS_ROWS if data.X.shape[0] > CLASS_ROWS else None

    @property
    def _all_softmax(self) -> bool:
        return all(isinstance(one, Softmax) for one in self.likelihood.likelihoods)
