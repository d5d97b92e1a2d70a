"""How models of Gaussian targets are trained, whose best posterior is known in closed form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from mogp.data import Array, MultiOutputData
from mogp.data.batches import Batch
from mogp.inducing import InducingPoints
from mogp.likelihoods import PerOutput
from mogp.models.base import MOGP, Data
from mogp.models.closed_form import of_sparse, row_terms, told
from mogp.models.collapsed import TOLERANCE, Collapsed, collapses
from mogp.models.stages import Stage
from mogp.optimizers import LBFGS, Problem
from mogp.posteriors import Joint, Posterior
from mogp.priors import Prior


class TrainsGaussians(MOGP):
    """The recipe of sparse models all of whose targets are Gaussian, and their best posterior.

    Up to a size they are trained by L-BFGS without a posterior (`Collapsed`); the best joint one is
    put in at the end, and a factorised one in its place before other optimisers train on.
    """

    prior: Prior
    inducing: InducingPoints
    posterior: Posterior
    likelihood: PerOutput
    kl_weight: float
    _rows_apart: ClassVar[bool] = True

    def start(self, data: Any) -> None:
        """See `MOGP.start`."""
        self._factorise()
        super().start(data)

    def problem(
        self, data: Data | Callable[[Any], Any], size: Any = None, seed: int = 0
    ) -> Problem:
        """See `MOGP.problem`. A factorised posterior is trained, also where `joint_posterior` had
        put another in its place.
        """
        self._factorise()
        return super().problem(data, size, seed)

    def usual_stages(
        self, data: Data | Callable[[Any], Any], size: Any = None, seed: int = 0
    ) -> list[Stage]:
        r"""See `MOGP.usual_stages`. Where all targets are Gaussian, and there are not many,
        $q(\mathbf u)$ need not be trained: L-BFGS maximises the bound under the best one
        (`Collapsed`), which is put in afterwards.
        """
        self._factorise()
        whole = size is None and self._rows_apart
        if not (whole and isinstance(data, MultiOutputData) and collapses(self, data)):
            return self.stages(data, size, seed)

        def problem() -> Problem:
            hyper = Collapsed(self)
            return replace(self.problem(data, size, seed), model=hyper, loss=hyper.loss)

        def ready() -> None:
            self.joint_posterior(data)

        return [Stage("model", problem, LBFGS(tolerance=TOLERANCE), only=LBFGS, ready=ready)]

    def usual_rows(self, data: Data) -> int | None:
        """See `MOGP.usual_rows`; all rows where the bound needs no posterior."""
        whole = isinstance(data, MultiOutputData) and collapses(self, data)
        return None if whole else super().usual_rows(data)

    def _factorise(self) -> None:
        """In place of a joint posterior that was found in closed form take the factorised one that
        is best where it is the best of all.
        """
        if isinstance(self.posterior, Joint) and self.posterior.replaces is not None:
            self.posterior = self.posterior.factorised(self.inducing.Kuu(self.prior.kernels))

    def joint_posterior(self, data: MultiOutputData) -> float:
        r"""Put in the best Gaussian $q(\mathbf u)$ of all, in closed form, where all targets are
        Gaussian.

        With whitened variables $\mathbf v$ of all latent GPs, noise variances $\sigma_d^2$ and the
        weights $w_d$ of the mixture its precision is
        $I + \sum_{dn} \sigma_d^{-2} (w_d \otimes a_{n})(w_d \otimes a_{n})^\top$, with
        $(w \otimes a_n)_l = w_l a_{ln}$: latent GPs depend on each other (`mogp.posteriors.Joint`).
        All else stays as it is, and the bound becomes that of Titsias (2009). Where latent GPs
        share no output (`Independent`, or one latent GP) it is a `Full` posterior. Sums over rows
        are taken in pieces and in double precision.

        `fit` does so after its recipe, and takes the factorised posterior that is closest before it
        trains again.

        Args:
            data: all that the model was trained on.

        Returns:
            By how many nats the bound has risen. If rounding would let it fall, the posterior
            stays as it is, and this is not above 0.

        >>> import numpy as np
        >>> from mogp import MultiOutputData
        >>> from mogp.likelihoods import Gaussian
        >>> from mogp.models import hetmogp_lmc
        >>> x = np.linspace(0, 1, 8)
        >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))
        >>> model = hetmogp_lmc(data, [Gaussian(0.1), Gaussian(0.1)], latents=2, inducing=4)
        >>> before = model.elbo(data)
        >>> rise = model.joint_posterior(data)
        >>> type(model.posterior).__name__, bool(np.isclose(model.elbo(data), before + rise))
        ('Joint', True)
        """
        return of_sparse(self, data)

    def _row_terms(self, batch: Batch) -> Iterator[tuple[Any, Array, Array]]:
        """What the targets of each row tell of the latent GPs there: `row_terms`."""
        return row_terms(self, batch)

    def last_step(self, data: Data) -> str:
        """The best $q(u)$ in closed form, where there is one (`joint_posterior`)."""
        return told(self, data)
