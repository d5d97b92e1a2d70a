"""A row effect: what Gaussian outputs observed at one row share besides their functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.likelihoods import Likelihood

from mogp.data import Array, MultiOutputData, Names, Scaling
from mogp.data.batches import Batch, OutputBatch
from mogp.errors import UnsupportedError
from mogp.inducing import InducingPoints
from mogp.likelihoods import PerOutput
from mogp.linalg import cholesky
from mogp.models import closed_form
from mogp.models.answers import is_gaussian
from mogp.models.sparse import SparseMOGP
from mogp.posteriors import Factors, Posterior
from mogp.priors import Conditional, Known, Prior, RowEffects


class RowEffectMOGP(SparseMOGP):
    r"""A `SparseMOGP` of Gaussian outputs that share an effect at each row.

    $$y_{dn} = f_d(x_n) + r_{dn} + \epsilon_{dn}, \qquad r_n \sim N(0, B), \quad B = W W^\top, \quad
      \epsilon_{dn} \sim N(0, \sigma_d^2).$$

    The effect $r_n$ is of row $n$ of the data, not of its inputs: two rows with the same inputs
    have two independent effects. It is integrated out: with $\Sigma = B + \mathrm{diag}(\sigma^2)$,
    $o$ the outputs observed at row $n$, and $m$ and $S$ the moments of the functions there under
    $q$, the data term of a row is

    $$\mathbb E_q \log N(y_o \mid f_o, \Sigma_{oo}) = \log N(y_o \mid m_o, \Sigma_{oo})
      - \tfrac12 \mathrm{tr}(\Sigma_{oo}^{-1} S_{oo}),$$

    so that the bound is as tight as without the effect. Only $\Sigma$ is learned from the data;
    with fewer than three outputs, how much of its diagonal is $B$'s is not. Functions are those of
    `predict_f`; the effect is in predictions of targets, where outputs known at a row tell of the
    others (`given=`), and in draws of them, which are joint over outputs.

    Mini-batches draw rows for all outputs together, and need data whose outputs share them.

    Args:
        prior, inducing, likelihood, posterior, names, kl_weight, scaling: as of `SparseMOGP`; all
            likelihoods are Gaussian.
        effect: `[D, R]` start values of $W$. They must not be zero, where the bound is flat.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.likelihoods import Gaussian
    >>> from mogp.models import hetmogp_lmc
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))
    >>> model = hetmogp_lmc(data, [Gaussian(0.1), Gaussian(0.1)], inducing=4, row_effect=1)
    >>> type(model).__name__, model.effect.shape.as_list()
    ('RowEffectMOGP', [2, 1])
    >>> model.predict_y([0.5], "output 1", given={"output 0": [0.4]}).mean.shape.as_list()
    [1, 1]
    """

    _rows_apart = False

    def __init__(
        self,
        prior: Prior,
        inducing: InducingPoints,
        likelihood: Likelihood | Sequence[Likelihood] | Mapping[str, Likelihood] | PerOutput,
        posterior: Posterior | None = None,
        names: Names = None,
        kl_weight: float = 1.0,
        scaling: Scaling | None = None,
        *,
        effect: npt.ArrayLike,
    ) -> None:
        super().__init__(prior, inducing, likelihood, posterior, names, kl_weight, scaling)
        weights = np.asarray(effect, float)
        gaussian_variances(self.likelihood, self.names)
        if weights.ndim != 2 or len(weights) != len(self.names) or not weights.any():
            raise ValueError(
                f"effect has shape {weights.shape}; expected weights [outputs, rank] that are not"
                f" all zero, for {len(self.names)} outputs."
            )
        self.effect = gpflow.Parameter(weights)

    def choices(self) -> dict[str, str]:
        """What it is made of, in words."""
        said = super().choices()
        return {**said, "likelihood": said["likelihood"] + described_effect(self.effect)}

    # --- the bound

    def _expectations(
        self, batch: Batch, factors: Factors
    ) -> Iterator[tuple[tuple[int, ...], tf.Tensor]]:
        D = len(self.names)
        f = self.condition(batch.X, factors).marginals(range(D), full_output_cov=True)
        each = [_over_rows(own, tf.shape(f.mean)[0]) for own in batch.outputs]
        Y, weight = (tf.stack(columns, 1) for columns in zip(*each, strict=True))
        here = tf.cast(weight > 0, f.mean.dtype)
        both = here[:, :, None] * here[:, None]
        # Outputs that a row lacks become independent of the others, with variance one.
        noise = [one.variance_at(batch.X)[:, 0] for one in self.likelihood.likelihoods]
        own = here * tf.stack(noise, 1) + 1 - here
        L = cholesky(
            both * self._shared + tf.linalg.diag(own), jitter=0.0, name="the noise of a row"
        )
        residual = tf.linalg.triangular_solve(L, (here * (Y - f.mean))[..., None])
        # tr(Σ⁻¹S) = tr(L⁻¹ S L⁻ᵀ)
        half = tf.linalg.triangular_solve(L, both * f.var)
        spread = tf.linalg.trace(tf.linalg.triangular_solve(L, tf.linalg.matrix_transpose(half)))
        logs = 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(L)), 1)
        constant = float(np.log(2 * np.pi)) * tf.reduce_sum(here, 1)
        expected = -0.5 * (tf.reduce_sum(residual**2, (1, 2)) + spread + logs + constant)
        yield tuple(range(D)), tf.reduce_max(weight, 1) * expected

    def data_terms(self, data: Any) -> tf.Tensor:
        """Not defined: the outputs of a row have one term together."""
        raise self.unsupported(
            "has no data term for each output: outputs of a row have one together", "Use elbo."
        )

    def check(self, data: Any) -> None:
        """Raise unless the model can be trained on the data: one target an output and row."""
        super().check(data)
        check_rows(data)

    def usual_rows(self, data: Any) -> int | None:
        """See `SparseMOGP.usual_rows`; all where outputs have inputs of their own."""
        return super().usual_rows(data) if data.shares_inputs else None

    def batches(self, data: Any, size: Any = None, seed: int = 0) -> Callable[[Any], Any]:
        """Mini-batches of rows, with all outputs observed there."""
        together = isinstance(size, int | np.integer) and data.shares_inputs
        rows = np.concatenate([o.rows for o in data.outputs])
        if size is not None and not together and len(np.unique(rows)) < len(rows):
            raise self.unsupported(
                f"cannot draw batch_size={size!r}: outputs share an effect at each row, and batches"
                " must draw rows for all of them",
                "Use one number for all outputs on data without unused rows, or batch_size=None.",
            )
        return super().batches(data, size, seed)

    def _row_terms(self, batch: Batch) -> Iterator[tuple[Any, Array, Array]]:
        r"""With $W$ the weights of the functions, $\Lambda_n = W_o^\top \Sigma_{oo}^{-1} W_o$ and
        $b_n = W_o^\top \Sigma_{oo}^{-1} (y_o - b_o)$.
        """
        W, bias = closed_form.mixture(self)
        N, D = int(batch.X.shape[0]), len(self.names)
        each = [_over_rows(own, tf.constant(N)) for own in batch.outputs]
        Y, weight = (
            np.stack([closed_form.in_double(one) for one in a], 1) for a in zip(*each, strict=True)
        )
        here = weight > 0
        noise = np.stack(
            [np.broadcast_to(closed_form.noise_at(self, d, batch.X, None), N) for d in range(D)], 1
        )
        shared = closed_form.in_double(self._shared)
        for piece in closed_form.pieces(N, self.inducing.num_inducing * D):
            both = here[piece, :, None] & here[piece, None]
            own = np.where(here[piece], noise[piece], 1.0)
            Sigma = both * shared + own[:, :, None] * np.eye(D)
            inverse = np.where(both, np.linalg.inv(Sigma), 0.0) / self.kl_weight
            precision = W.T @ inverse @ W
            pull = (inverse @ (Y[piece] - bias)[..., None])[..., 0] @ W
            yield closed_form.rows_of(batch.X, piece), precision, pull

    # --- prediction

    @property
    def _shared(self) -> tf.Tensor:
        """`B [D, D]`."""
        W = tf.convert_to_tensor(self.effect)
        return tf.linalg.matmul(W, W, transpose_b=True)

    def noiseless(self, X: tf.Tensor, full_cov: bool = False) -> Conditional:
        """The functions with the effect of each row."""
        return RowEffects(self.condition(X, full_cov=full_cov), tf.convert_to_tensor(self.effect))

    def known_noise(self, known: Known, variances: tf.Tensor) -> tf.Tensor:
        """Covariance of targets around their functions: the effect is shared within a row."""
        return super().known_noise(known, variances) + known.noise(self._shared)


def start_effect(data: MultiOutputData, columns: int, variances: npt.ArrayLike, seed: int) -> Array:
    """Start values of the weights `[D, columns]` of a row effect, in random directions.

    Args:
        data: each output has at most one target at a row.
        columns: of the weights: the rank of the covariance of the effect.
        variances: `[D]` of the effect.
        seed: of the draw.

    >>> data = MultiOutputData.from_arrays([0.0, 1.0], np.ones((2, 3)))
    >>> W = start_effect(data, 2, [1.0, 4.0, 9.0], seed=0)
    >>> np.round(np.sum(W**2, axis=1), 6).tolist()
    [1.0, 4.0, 9.0]
    """
    if columns < 1 or int(columns) != columns:
        raise ValueError(
            f"row_effect={columns!r}; expected the rank of its covariance, 1 or more, or 0 for no"
            " effect."
        )
    check_rows(data)
    W = np.random.default_rng(seed).normal(size=(data.num_outputs, int(columns)))
    W *= np.sqrt(np.asarray(variances))[:, None] / np.linalg.norm(W, axis=1, keepdims=True)
    return W


def gaussian_variances(likelihood: PerOutput, names: Sequence[str]) -> list[float]:
    """Noise variance of each output; raise unless all are Gaussian.

    Args:
        likelihood: of each output.
        names: of the outputs.

    >>> from mogp.likelihoods import Gaussian
    >>> gaussian_variances(PerOutput([Gaussian(0.5)]), ["level"])
    [0.5]
    """
    others = [
        f"{name!r} ({type(one).__name__})"
        for name, one in zip(names, likelihood.likelihoods, strict=True)
        if not is_gaussian(one)
    ]
    if others:
        raise UnsupportedError(
            f"a row effect is for Gaussian outputs; {', '.join(others[:5])}"
            f" {'is' if len(others) == 1 else 'are'} not. Use row_effect=0, or Gaussian() for these"
            " outputs."
        )
    nowhere = np.zeros((1, 0))
    return [float(one.variance_at(nowhere)[0, 0]) for one in likelihood.likelihoods]


def check_rows(data: MultiOutputData) -> None:
    """Raise unless every output has at most one target at a row.

    Args:
        data: to train on.
    """
    for own in data.outputs:
        if len(np.unique(own.rows)) < len(own):
            raise ValueError(
                f"output {own.name!r} has several targets at one row; a row effect is shared by one"
                " of each output. Give repeated observations rows of their own."
            )


def described_effect(effect: gpflow.Parameter | None) -> str:
    """The effect in words, to follow those of the noise.

    Args:
        effect: weights `[D, R]`, or None.

    >>> described_effect(np.ones((3, 2)))
    ', and an effect of rank 2 that outputs share at a row'
    """
    if effect is None:
        return ""
    return f", and an effect of rank {effect.shape[1]} that outputs share at a row"


def _over_rows(own: OutputBatch, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Targets and weights `[N]` of an output over all rows of a batch, 0 where it was not
    observed.
    """
    if own.rows is None:
        return own.Y[:, 0], own.weight
    where = own.rows[:, None]
    shape = tf.cast(rows, where.dtype)[None]
    return tf.scatter_nd(where, own.Y[:, 0], shape), tf.scatter_nd(where, own.weight, shape)
