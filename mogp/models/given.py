r"""`given=`: predictions where the targets of some outputs are known at the test rows.

`given={name: values [N]}` names outputs that were observed at the rows of a call, NaN where one was
not. Predictions are then those of the posterior given *all* these values: jointly over rows and
outputs, as if the new observations had been conditioned on together. A row that has no value is
told by its neighbours that have; a row's own values tell most.

With $f$ the functions at the rows under the posterior, Gaussian with mean $m$ and covariance $C$,
and $y_g = f_g + \epsilon$ the values given, with noise covariance $\Sigma_{gg}$,

$$\mathrm{E}[f \mid y_g] = m + C_{\cdot g}(C_{gg} + \Sigma_{gg})^{-1}(y_g - m_g), \qquad
  \mathrm{Cov}[f \mid y_g] = C - C_{\cdot g}(C_{gg} + \Sigma_{gg})^{-1}C_{g\cdot}.$$

This is exact: for an exact model the same as adding the values to the data, for a sparse model the
same under $q(u)\,p(f \mid u)$, whose conditionals keep their full covariance. Hyper-parameters stay
as they are. Time grows with the cube of the number of values, memory with the square of the number
of rows. Rows in separate calls do not see each other's values: a call with many rows can be split,
and its predictions then know less.

Targets that are given are predicted as themselves, with variance 0; their functions are not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mogp.data import Array
from mogp.priors import Marginals


class Predictor(ABC):
    """What a family adds to predict: inputs `X` are as its kernels read them."""

    @abstractmethod
    def _predict_f(self, X: tf.Tensor, outputs: Sequence[int], full_cov: bool = False) -> Marginals:
        """Marginals of the functions of some outputs."""

    @abstractmethod
    def _predict_y(self, X: tf.Tensor, outputs: Sequence[int]) -> Marginals:
        """Mean and variance of the targets of some outputs."""

    @abstractmethod
    def _draw_f(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        """Joint draws of the functions of some outputs."""

    @abstractmethod
    def _draw_y(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        """Draws of the targets of some outputs, joint over rows."""

    @abstractmethod
    def _draw_y_apart(self, X: tf.Tensor, output: int, samples: int, seed: int) -> tf.Tensor:
        """Draws of the targets of one output, each row by itself: for quantiles."""


def known_values(
    given: Mapping[str, npt.ArrayLike], index: Callable[[str], int], rows: int
) -> dict[int, Array]:
    """Values `[N]` by position of the output, NaN where one is not known; checked.

    Outputs that are known at no row are left out.

    Args:
        given: values by name of the output.
        index: from the name of an output to its position; raises for other names.
        rows: how many there are, `N`.

    >>> known_values({"b": [1.0, float("nan")], "a": [float("nan")] * 2}, "abc".index, 2)
    {1: array([ 1., nan])}
    """
    known = {}
    for name, values in given.items():
        d, own = index(name), np.asarray(values, float).reshape(-1)
        if len(own) != rows or np.isinf(own).any():
            raise ValueError(
                f"given[{name!r}] has {len(own)} values for {rows} rows; give a finite number for"
                " each, NaN where it is not known."
            )
        if not np.isnan(own).all():
            known[d] = own
    return known


def settled(values: tf.Tensor, known: Array | None) -> tf.Tensor:
    """Values `[..., N, 1]` of a target, with those that are known in their place.

    Args:
        values: predicted or drawn.
        known: `[N]`, NaN where not known; None if it is known nowhere.

    >>> settled(tf.constant([[1.0], [2.0]]), np.array([np.nan, 5.0])).numpy().tolist()
    [[1.0], [5.0]]
    """
    if known is None:
        return values
    own = np.nan_to_num(known)[:, None]
    return tf.where(np.isnan(known)[:, None], values, tf.constant(own, values.dtype))
