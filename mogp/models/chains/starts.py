"""Several starts for a layer of GPAR, the best evidence wins; and layers that explain nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from gpflow.utilities import parameter_dict

from mogp.data import Array
from mogp.models.chains.regression import LogSearch, Regression

_NATS = 0.1


def start_logarithms(layer: Regression, number: int, input_dim: int) -> Array:
    r"""Logarithms of all parameters of a layer at a start, from those that it has now.

    Start $s = 0, 1, 2, \dots$ multiplies the noise variance by $10^{s \bmod 2}$ and all
    lengthscales by $(3\sqrt D)^{c}$, with $c = 0, 1, -1, 2, -2, \dots$ the $\lfloor s/2\rfloor$-th
    of these: distances between rows grow with the number $D$ of input columns. Parameters that are
    not trained stay.

    Args:
        layer: with the parameters that it was built with.
        number: of the start, $s$; 0 changes nothing.
        input_dim: $D$.
    """
    logs, sizes = layer._logarithms()
    power = (number // 2 + 1) // 2 * (1 if number // 2 % 2 else -1)
    paths = {id(p): path for path, p in parameter_dict(layer.kernel).items()}
    wide = [paths.get(id(p), "").endswith("lengthscales") for p in layer._parameters]
    moved: Array = logs + np.repeat(wide, sizes) * power * np.log(3 * np.sqrt(input_dim))
    moved[0] += number % 2 * np.log(10.0)
    return moved


class LayerSearch(LogSearch):
    """The search of a layer in a chain, from one of its starts.

    It gets its data when its turn comes, and not before that: a run that is resumed sets the
    parameters of earlier layers last. A further start leaves the parameters alone until it has
    found better ones, so that at any time the model has the best that were found.

    Args:
        layer: of the chain.
        send: gives the layer its data.
        changed: is told when the layer has new parameters.
        start: where to start, logarithms of all parameters; None for where they are.
    """

    def __init__(
        self,
        layer: Regression,
        send: Callable[[], None],
        changed: Callable[[], None],
        start: Array | None = None,
    ) -> None:
        super().__init__(layer)
        self._send, self._changed, self._start = send, changed, start
        self._best = np.inf

    def read(self) -> Array:
        """Where to start: the logarithms of the trainable parameters."""
        self._send()
        here = super().read()
        if self._start is None or not len(here):
            return here
        self._best = float(self.at(here)[0])
        return np.asarray(self._start[self._free], float)

    def write(self, x: Array) -> None:
        """Set the parameters to exponentials of `x`, unless those that are there are better."""
        if self._start is not None and float(self.at(x)[0]) > self._best:
            return
        super().write(x)
        self._changed()


def warn_of_noise(layer: Regression, output: str) -> None:
    r"""Warn if a layer has ended where its function explains nothing.

    That is where its evidence is, within a tenth of a nat, that of white noise,
    $-\frac n2(\log 2\pi s^2 + 1)$ with $s^2$ the mean square of the $n$ targets, and has stopped
    rising. (A training that was cut short may pass by.)

    Args:
        layer: trained.
        output: its name.
    """
    square = float(np.mean(np.square(layer.y))) if len(layer.y) else 0.0
    if not square:
        return
    white = -0.5 * len(layer.y) * (np.log(2 * np.pi * square) + 1)
    if abs(layer.evidence() - white) > _NATS:
        return
    search = LogSearch(layer)
    slope = search.at(search.read())[1]
    if np.max(np.abs(slope), initial=0.0) <= _NATS:
        warnings.warn(
            f"the layer of {output!r} explains nothing: its evidence is that of white noise. If"
            " there should be more to it than that, try further starts (starts=6), a larger noise="
            " or other lengthscales in kernel=, or another order=.",
            stacklevel=4,
        )
