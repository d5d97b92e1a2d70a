"""ACCGP: a correlated chained GP trained on its output and a copy of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf
from gpflow.likelihoods import Likelihood

from mogp.data import MultiOutputData
from mogp.data.batches import Batch, BatchSource
from mogp.inducing import InducingPoints
from mogp.models.choices import KernelChoice, ScalingChoice
from mogp.models.data_start import StartName
from mogp.models.heterogeneous import check_one_output, hetmogp_lmc
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Full


def accgp(
    data: MultiOutputData,
    likelihood: Likelihood,
    *,
    latents: int = 2,
    inducing: int | InducingPoints = 20,
    kernel: KernelChoice = None,
    whiten: bool = True,
    start: StartName = "data",
    scaling: ScalingChoice = "standard",
    seed: int = 0,
) -> AugmentedMOGP:
    """Augmented correlated chained GP: a CCGP trained on its output and a copy of it (Giraldo,
    chapter 3).

    prior       LMC over the parameters of both, so that the copy has weights of its own
    inducing    points, a set for each latent GP
    posterior   full, whitened
    likelihood  any with several latent functions, twice

    Train it and predict with the data of one output; the first of the two outputs is the one to
    report.

    Args:
        data: observations of one output.
        likelihood: of the output.
        latents, inducing, kernel, whiten, start, scaling, seed: as in `hetmogp_lmc`.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import HeteroscedasticGaussian
    >>> from mogp.models import accgp
    >>> X = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(X, np.sin(6 * X), names=["level"])
    >>> accgp(data, HeteroscedasticGaussian(), inducing=4).names
    ('level', 'level (copy)')
    """
    check_one_output(data)
    twice = hetmogp_lmc(
        twofold(data),
        [likelihood, likelihood],
        latents=latents,
        inducing=inducing,
        kernel=kernel,
        whiten=whiten,
        start=start,
        scaling=scaling,
        seed=seed,
    )
    return AugmentedMOGP(
        twice.prior,
        twice.inducing,
        twice.likelihood,
        Full(whiten),
        twice.schema,
        scaling=twice.scaling,
    )


class AugmentedMOGP(SparseMOGP):
    r"""A model of an output and a copy of it, for the data of one output.

    The objective counts every observation twice,

    $$\hat{\mathcal L} = \frac N{|A|}\sum_{a\in A}\mathbb E\log p(y_a\mid f_1) + \frac
      N{|B|}\sum_{b\in B} \mathbb E\log p(y_b\mid f_2) - \mathrm{KL},$$

    with independent draws $A$, $B$ of half a mini-batch each: no bound on the evidence, nor
    comparable with one. Predictions are those of the first output unless the copy is named.
    `accgp` builds such models.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import HeteroscedasticGaussian
    >>> from mogp.models import AugmentedMOGP, accgp
    >>> data = MultiOutputData.from_arrays(np.linspace(0, 1, 8), np.arange(8.0))
    >>> model = accgp(data, HeteroscedasticGaussian(), inducing=4)
    >>> isinstance(model, AugmentedMOGP), [len(own.Y) for own in model.batches(data, 6)(0).outputs]
    (True, [3, 3])
    """

    def batches(self, data: MultiOutputData, size: Any = None, seed: int = 0) -> BatchSource:
        """Mini-batches in which each copy has half of the `size` rows."""
        copies: MultiOutputData = self.scaled(data)
        if size is None:
            return copies.batches(None, seed)
        if not isinstance(size, int | np.integer) or size < 2:
            raise ValueError(
                f"batch_size={size!r}; an augmented model takes one number of at least 2, halved"
                " for each copy."
            )
        return copies.batches([int(size) // 2] * 2, seed)

    def check(self, data: Any) -> None:
        """Raise unless the model can be trained on the data of its one output."""
        super().check(_both(data))

    def scaled(self, data: Any) -> Any:
        """Data of both as the kernels read them."""
        return super().scaled(_both(data))

    def aligned(self, data: Any) -> Any:
        """Data of the one output, given to both."""
        return super().aligned(_both(data))

    def _batch(self, data: Any) -> Batch:
        return super()._batch(_both(data) if isinstance(data, MultiOutputData) else data)

    @property
    def reported(self) -> range:
        """The outputs that predictions are of unless one is named: the first."""
        return range(1)

    def predict_log_density(self, data: Any) -> dict[str, tf.Tensor]:
        """See `MOGP.predict_log_density`; of the copy too, where the data have it (`twofold`)."""
        found = super().predict_log_density(data)
        return {name: found[name] for name in data.names}


def twofold(data: MultiOutputData) -> MultiOutputData:
    """The one output of the data and a copy of it, named after it.

    >>> from mogp import MultiOutputData
    >>> from mogp.models import twofold
    >>> twofold(MultiOutputData.from_arrays([0.0, 1.0], [3.0, 4.0], names=["level"])).names
    ('level', 'level (copy)')
    """
    check_one_output(data)
    own = data[0]
    return replace(data, outputs=(own, replace(own, name=f"{own.name} (copy)")))


def _both(data: MultiOutputData) -> MultiOutputData:
    return data if data.num_outputs == 2 else twofold(data)
