"""Transforms of targets that are skewed or positive: told to densities by their slope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import special, stats

Array = npt.NDArray[Any]
TransformName = Literal["log", "yeo-johnson"]
_NODES = 60


@dataclass(frozen=True)
class Transform:
    r"""A rising function $g$ of targets, onto all real numbers.

    "log" is $g(y) = \log y$, for positive targets. "yeo-johnson" (Yeo and Johnson 2000), for any,
    is

    $$g(y) = \frac{(1 + y)^\lambda - 1}{\lambda}\ (y \ge 0),\qquad
      g(y) = -\frac{(1 - y)^{2 - \lambda} - 1}{2 - \lambda}\ (y < 0),$$

    with logarithms where a denominator is zero. $\lambda$ lies between 0 and 2: beyond, $g$ has a
    bound, and a prediction above it no target.

    Args:
        name: which.
        power: $\lambda$.

    >>> log = Transform("log")
    >>> float(log.forward(1.0)), float(log.inverse(0.0))
    (0.0, 1.0)
    """

    name: TransformName
    power: float = 1.0

    @classmethod
    def of(cls, name: str, y: Array, output: str = "the output") -> Transform:
        """With the power of the highest likelihood, for targets that are normal after it.

        Args:
            name: "log" or "yeo-johnson".
            y: targets.
            output: its name, for errors.

        >>> Transform.of("yeo-johnson", np.exp(np.linspace(-2, 2, 50))).power < 0.5
        True
        """
        if name not in get_args(TransformName):
            raise ValueError(
                f"transform {name!r} of {output!r}; choose {' or '.join(get_args(TransformName))}."
            )
        if name == "log":
            _checked_log(y)
            return cls("log")
        power = float(stats.yeojohnson(y)[1]) if len(np.unique(y)) > 1 else 1.0
        return cls("yeo-johnson", float(np.clip(power, 0.0, 2.0)))

    def forward(self, y: npt.ArrayLike) -> Array:
        """$g(y)$; NaN stays NaN.

        Args:
            y: targets.
        """
        y = np.asarray(y, float)
        if self.name == "log":
            return _checked_log(y)
        up, down = np.maximum(y, 0.0), np.maximum(-y, 0.0)
        return np.where(y < 0, -_power(down, 2.0 - self.power), _power(up, self.power))

    def inverse(self, z: npt.ArrayLike) -> Array:
        """$g^{-1}(z)$.

        Args:
            z: what targets became.
        """
        z = np.asarray(z, float)
        up, down = np.maximum(z, 0.0), np.maximum(-z, 0.0)
        both: Array = np.where(z < 0, -_root(down, 2.0 - self.power), _root(up, self.power))
        return np.exp(z) if self.name == "log" else both

    def log_slope(self, y: npt.ArrayLike) -> Array:
        r"""$\log g'(y)$.

        Args:
            y: targets.
        """
        y = np.asarray(y, float)
        slope: Array = np.sign(y) * (self.power - 1.0) * np.log1p(np.abs(y))
        return -np.log(y) if self.name == "log" else slope

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        r"""Mean and variance of $g^{-1}(z)$ for $z \sim N(\text{mean}, \text{var})$, by quadrature.

        Args:
            mean: any shape.
            var: the same shape.

        >>> mean, var = Transform("log").moments(np.array(0.0), np.array(1.0))
        >>> np.round([float(mean), float(var)], 3).tolist()  # a log-normal variable
        [1.649, 4.671]
        """
        x, w = special.roots_hermitenorm(_NODES)
        w = w / w.sum()
        y = self.inverse(mean[..., None] + np.sqrt(np.maximum(var, 0.0))[..., None] * x)
        first = y @ w
        return first, np.square(y - first[..., None]) @ w


def _checked_log(y: Array) -> Array:
    """Logarithms of positive numbers; NaN stays NaN."""
    if np.any(y <= 0):
        raise ValueError(
            f"a target is {np.nanmin(y):g}, and a log takes positive ones. Use 'yeo-johnson', or"
            " drop these rows."
        )
    logs: Array = np.log(y)
    return logs


def _power(y: Array, power: float) -> Array:
    """$((1 + y)^p - 1) / p$ for $y \\ge 0$."""
    return np.log1p(y) if abs(power) < 1e-9 else np.expm1(power * np.log1p(y)) / power


def _root(z: Array, power: float) -> Array:
    """Its inverse."""
    return np.expm1(z) if abs(power) < 1e-9 else np.expm1(np.log1p(power * z) / power)
