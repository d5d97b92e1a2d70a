"""How a chain of sparse GPs is trained unless the caller of `fit` says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy.typing as npt

from mogp.data import MultiOutputData
from mogp.models.chains.paths import PredictsPaths
from mogp.models.chains.posterior_start import is_regressions, regress, start_at
from mogp.optimizers import Adam, Falling, Optimizer

if TYPE_CHECKING:
    from mogp.models.chains.chain import LatentChain


class TrainsPaths(PredictsPaths):
    r"""Training through sampled paths, and posteriors in closed form.

    GPs of a chain are independent under $q$. The bound then gains when functions are surer than
    they should be, because later GPs read them: bands in gaps get narrower the longer a chain is
    trained. Where all outputs are Gaussian, the recipe of `fit` therefore ends by giving each GP
    the posterior of its regression (`regress`): the bound falls, and bands are honest again.
    """

    usual_batches = True

    def usual_optimizer(self) -> Optimizer:
        """Adam at small steps, which end where sampled paths allow no finer look."""
        return Falling(Adam(0.01), tolerance=1e-2)

    def last_step(self, data: Any) -> str:
        """`regress`, where all outputs are Gaussian and each is a mean of GPs that read inputs."""
        if callable(data) or not is_regressions(cast("LatentChain", self)):
            return ""
        before = float(self.elbo(data))
        self.regress(data)
        return (
            "Each GP was given the posterior of its regression, for honest bands: the bound went"
            f" from {before:.1f} to {float(self.elbo(data)):.1f}."
        )

    def start_at(self, means: Sequence[npt.ArrayLike], spread: float | None = None) -> None:
        """Set every `q(u_c)` to `N(means[c], spread² I)`, or without a spread to
        `N(means[c], K_c)`; `means [GPs][M]` are of the inducing values.
        """
        start_at(cast("LatentChain", self), means, spread)

    def regress(self, data: MultiOutputData) -> None:
        """Set the `q(u_c)` of Gaussian outputs to their optimum, one after the other, with means
        sent down the chain.
        """
        regress(cast("LatentChain", self), self.scaled(data))
