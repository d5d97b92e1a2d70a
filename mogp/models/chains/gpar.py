"""GPAR: outputs one after the other, each a GP regression on the inputs and the outputs before
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from gpflow.likelihoods import Gaussian

from mogp.data import Array, MultiOutputData
from mogp.errors import UnsupportedError
from mogp.kernels import LayerKernels
from mogp.likelihoods import PerOutput
from mogp.models.base import Data, Given, Replica
from mogp.models.chains.paths import PathMOGP, Paths, check_known, total_variance, where_known
from mogp.models.chains.regression import LEAST, LogSearch, Regression, logarithms
from mogp.models.chains.values import Scale, Targets, Values, inducing_inputs, layer_kernels
from mogp.models.stages import Stage
from mogp.optimizers import LBFGS, Problem
from mogp.priors import Marginals


class GPAR(PathMOGP):
    r"""The Gaussian process autoregressive model (Requeima, Tebbutt, Bruinsma and Turner 2019).

    $$y_l(x) = f_l(x, y_1(x), \dots, y_{l-1}(x)) + \epsilon_l,\qquad f_l \sim GP(0, k_l),\quad
      \epsilon_l \sim N(0, \sigma_l^2),$$

    for outputs that are standardised (mean and standard deviation of the training targets) and put
    in an order. Given the data, the layers are $L$ separate regressions, trained one after the
    other by L-BFGS. For a layer to read an output at a row, that output must have a value there:
    with `impute`, the posterior mean of $f_j$ stands in where $y_j$ is missing; with `replace`, it
    also stands in where $y_j$ was observed, which takes the noise off the inputs of later layers.
    Without `impute`, rows that lack an output a layer reads are not used to train it.

    A prediction sends draws down the chain: $y_1$, noise included, is drawn and read by $f_2$, and
    so on. At one point $x$ the distribution of an output is then a mixture of Gaussians, one a
    path. Layers that come later tell earlier ones nothing.

    `LayerKernels(..., markov=0)` gives independent GPs (IGP); `order=data.names[::-1]` is "GPAR
    backward".

    The model holds its data. `mogp.fit(model, data)` trains it on those and refuses others; it has
    a stage for each layer, by L-BFGS on the logarithms of the parameters.

    Args:
        data: one target column an output, any targets missing.
        kernel: of the layers; if None linear and nonlinear terms over the outputs, and
            lengthscales of a tenth of the range of each input column.
        order: the outputs' names from first to last; as in the data if None.
        replace: see above.
        impute: see above.
        inducing: inducing inputs `[M, D]` of the first layer, or how many: evenly spaced for one
            input column, centres of clusters for more. Those of later layers add posterior means of
            the layers before. None: exact.
        noise: start value of the $\sigma_l^2$.
        seed: of the clusters.

    >>> import mogp
    >>> x = [[0.0], [0.3], [0.5], [1.0]]
    >>> y = [[0.0, 1.0], [0.6, 1.2], [0.9, 1.9], [0.8, float("nan")]]
    >>> data = mogp.MultiOutputData.from_arrays(x, y, names=["first", "second"])
    >>> model = GPAR(data)
    >>> history = mogp.fit(model, data, steps=2, progress=False)
    >>> [stage.name for stage in history.stages]
    ['first', 'second']
    >>> model.predict_y([[1.0], [1.5]], "second").mean.shape
    TensorShape([2, 1])
    """

    def __init__(
        self,
        data: MultiOutputData,
        kernel: LayerKernels | None = None,
        *,
        order: Sequence[str] | None = None,
        replace: bool = True,
        impute: bool = True,
        inducing: int | npt.ArrayLike | None = None,
        noise: float = 0.01,
        seed: int = 0,
    ) -> None:
        super().__init__()
        wide = [o.name for o in data.outputs if o.Y.shape[1] != 1]
        if wide:
            raise ValueError(f"GPAR takes one target column an output; {', '.join(wide)} has more.")
        if not noise > LEAST:
            raise ValueError(f"noise={noise}; a variance above {LEAST} is expected.")
        self.schema = data.schema
        self.order = _checked_order(data.names, data.names if order is None else order)
        self.recipe = layer_kernels(data, kernel)
        self.replace, self.impute = replace, impute
        self.scale = {o.name: Scale.of(o) for o in data.outputs}
        with logarithms():
            self.likelihood = PerOutput(
                {name: Gaussian(noise, variance_lower_bound=0.0) for name in self.names}
            )
            own = [self.recipe.layer(position) for position in range(len(self.order))]
        self._fingerprint = data.fingerprint
        self._targets = {o.name: Targets.of(o) for o in data.outputs}
        likelihoods = [self.likelihood.likelihoods[self.names.index(name)] for name in self.order]
        self._layers = tuple(Regression(*pair) for pair in zip(own, likelihoods, strict=True))
        # With values of l outputs, layers 0 to l have their data.
        self._values = Values(
            data.X, None if inducing is None else inducing_inputs(data, inducing, seed)
        )
        self._observe(0)

    @property
    def input_dim(self) -> int:
        """Columns of the inputs."""
        return self.recipe.input_dim

    @property
    def layers(self) -> tuple[Regression, ...]:
        """The regressions, in the order of the chain, with their data."""
        self._send(len(self.order) - 1)
        return self._layers

    def layer(self, output: int | str) -> Regression:
        """The regression of an output."""
        return self.layers[self.order.index(self.names[self.index(output)])]

    def choices(self) -> dict[str, str]:
        """Layers, order and likelihood, in words."""
        Z = self._values.Z
        points = "exact" if Z is None else f"{len(Z)} inducing inputs"
        return {
            "prior": f"a chain of {len(self.order)} layers, {' → '.join(self.order)}; {points}",
            "likelihood": "Gaussian, a variance for each output",
            "units": "those of the data; targets are standardised inside",
        }

    # --- training

    def check(self, data: Any) -> None:
        """Raise unless these are the data that the model was built on."""
        self.schema.check(data.schema)
        if data.fingerprint != self._fingerprint:
            raise ValueError(
                "these are not the data that this GPAR was built on. GPAR holds its data: build a"
                " new one for other data, GPAR(data, …)."
            )

    def stages(
        self, data: Data | Callable[[Any], Any], size: Any = None, seed: int = 0
    ) -> list[Stage]:
        """A stage for each layer, named by its output, in the order of the chain."""
        if size is not None:
            raise UnsupportedError(
                f"GPAR has no mini-batches (batch_size={size}): every layer is an exact or sparse"
                " regression on all its rows. Leave batch_size out, and for many rows give"
                " inducing=; or use gplar, which is trained on mini-batches."
            )
        self.check(data)
        self._forget(0)
        return [
            Stage(name, partial(self._problem, position), LBFGS(), only=LBFGS)
            for position, name in enumerate(self.order)
        ]

    def propagate(self) -> None:
        """Send the data down the chain again, after parameters were changed by hand."""
        self._forget(0)
        self._send(len(self.order) - 1)

    def _problem(self, position: int) -> Problem:
        layer = self._layers[position]
        search = _LayerSearch(self, position)
        return Problem(layer, lambda _: -layer.evidence(), lambda _: None, search=search)

    def _send(self, position: int) -> None:
        """Give a layer its data, and those before it, where they do not have them."""
        while (known := self._values.X.shape[1] - self.input_dim) < position:
            targets, reads = self._targets[self.order[known]], self.recipe.reads(known)
            self._values = self._values.extended(
                self._layers[known], targets, reads, self.replace, self.impute
            )
            self._observe(known + 1)

    def _observe(self, position: int) -> None:
        targets, reads = self._targets[self.order[position]], self.recipe.reads(position)
        self._layers[position].observe(*self._values.seen_by(targets, reads))

    def _forget(self, position: int) -> None:
        """A layer has changed, or is about to: what it told those after it no longer holds."""
        self._values = self._values.first(self.input_dim + position)

    def log_evidence(self) -> dict[str, float]:
        r"""$\log p(\mathbf y_l \mid \mathbf y_{<l})$ of every layer, in the order of the chain.

        Of standardised targets, given what stands in for earlier outputs; a bound if there are
        inducing inputs.
        """
        return {name: layer.evidence() for name, layer in zip(self.order, self.layers, strict=True)}

    def elbo(self, data: MultiOutputData | None = None) -> float:
        """The log evidence of all layers; `data`, if given, must be the model's own."""
        if data is not None:
            self.check(data)
        return sum(self.log_evidence().values())

    def training_loss(self, data: MultiOutputData | None = None) -> float:
        """The negative log evidence of all layers."""
        return -self.elbo(data)

    # --- prediction

    def posterior_means(self, Xnew: Any) -> Array:
        """Means `[N, L]`, passed down the chain without noise, of the standardised outputs in the
        chain's order.
        """
        path = self.at(Xnew)
        for layer in self.layers:
            path = tf.concat([path, layer.mean(path)[:, None]], 1)
        return np.asarray(path[:, self.input_dim :])

    def paths(
        self,
        Xnew: Any,
        samples: int = 100,
        seed: int = 0,
        given: Given = None,
    ) -> Paths:
        """Sampled paths at `Xnew [N, D]`, each point on its own, in the units of the data and the
        order of `names`.

        Args:
            Xnew: where.
            samples: paths, `S`.
            seed: of the draws.
            given: values `[N]` of outputs that are known at these rows. They must be the first of
                the chain, whose distribution needs no others; later outputs are then conditioned on
                them.
        """
        if samples < 1:
            raise ValueError(f"samples={samples}; at least one path is needed.")
        X = self.at(Xnew)
        known = self._given(given or {}, int(X.shape[0]))
        normal = tf.random.stateless_normal(
            [len(self.layers), samples, X.shape[0]], [seed, 0], dtype=X.dtype
        )
        path, means, variances = tf.tile(X[None], [samples, 1, 1]), [], []
        for position, layer in enumerate(self.layers):
            alike = not self.recipe.reads(position)
            mean, var = (
                tf.broadcast_to(a, normal[0].shape)
                for a in layer.moments(X[None] if alike else path)
            )
            drawn = mean + tf.sqrt(var + layer.noise) * normal[position]
            y = where_known(known.get(position), drawn)
            path = tf.concat([path, y[..., None]], 2)
            means.append(mean)
            variances.append(var)
        draws = tf.unstack(path[..., self.input_dim :], axis=2)
        return Paths(
            self._in_units(means), self._in_units(variances, squared=True), self._in_units(draws)
        )

    def _mixed(self, paths: Paths, outputs: Sequence[int]) -> Marginals:
        mean, var = (tf.gather(a, list(outputs), axis=2) for a in paths[:2])
        return Marginals(tf.reduce_mean(mean, 0), total_variance(mean, var))

    def _targets_of(self, X: tf.Tensor, paths: Paths, outputs: Sequence[int]) -> Marginals:
        mean, var = self._mixed(paths, outputs)
        return Marginals(mean, var + tf.gather(self._noise(), list(outputs)))

    def predict_f_samples(
        self,
        Xnew: Any,
        output: int | str | None = None,
        samples: int = 1,
        seed: int = 0,
        *,
        replica: Replica = None,
        given: Given = None,
    ) -> tf.Tensor:
        """Draws `[samples, N, L]` of the functions, joint over rows and outputs.

        What a function passes on has its noise. Arguments are those of `predict_y_samples`.
        """
        X, outputs = self.at(Xnew, replica), self._wanted(output)
        return self._joint_draws(X, outputs, samples, seed, given, latent=True)

    def predict_y_samples(
        self,
        Xnew: Any,
        output: int | str | None = None,
        samples: int = 1,
        seed: int = 0,
        *,
        replica: Replica = None,
        given: Given = None,
    ) -> tf.Tensor:
        """Draws `[samples, N, L]` of the targets, joint over rows and outputs.

        Args:
            Xnew: `[N, D]`.
            output: only this one.
            samples: how many.
            seed: of the draws.
            replica: GPAR has none.
            given: see `paths`.
        """
        X, outputs = self.at(Xnew, replica), self._wanted(output)
        return self._joint_draws(X, outputs, samples, seed, given, latent=False)

    def _draw_f(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        return self._joint_draws(X, outputs, samples, seed, None, latent=True)

    def _draw_y(self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int) -> tf.Tensor:
        return self._joint_draws(X, outputs, samples, seed, None, latent=False)

    def _draw_y_apart(self, X: tf.Tensor, output: int, samples: int, seed: int) -> tf.Tensor:
        return self.paths(X, samples, seed).draws[..., output : output + 1]

    def _joint_draws(
        self,
        X: tf.Tensor,
        outputs: Sequence[int],
        samples: int,
        seed: int,
        given: Given,
        latent: bool,
    ) -> tf.Tensor:
        if samples < 1:
            raise ValueError(f"samples={samples}; at least one is needed.")
        if X.shape[0] == 0:
            return tf.zeros([samples, 0, len(outputs)], X.dtype)
        known = self._given(given or {}, int(X.shape[0]))
        normal = tf.random.stateless_normal(
            [2, len(self.layers), samples, X.shape[0]], [seed, 1], dtype=X.dtype
        )
        path, drawn = tf.tile(X[None], [samples, 1, 1]), []
        for position, layer in enumerate(self.layers):
            f = layer.draws(path if self.recipe.reads(position) else X[None], normal[0, position])
            y = where_known(known.get(position), f + tf.sqrt(layer.noise) * normal[1, position])
            path = tf.concat([path, y[..., None]], 2)
            drawn.append(f if latent else y)
        return tf.gather(self._in_units(drawn), list(outputs), axis=2)

    def predict_log_density(
        self,
        data: MultiOutputData,
        samples: int = 100,
        seed: int = 0,
        noise: bool = True,
        matched: bool = False,
    ) -> dict[str, tf.Tensor]:
        r"""Log predictive density of every observed target, `[N_d]` for each output by name.

        $\log\frac1S\sum_s N(y_n \mid \mu_{ns}, v_{ns} + \sigma^2)$, over paths $s$.

        Args:
            data: targets of some or all outputs, in the units of the data the model was made from.
            samples: paths.
            seed: of the draws.
            noise: without it, $\sigma^2$ is left out: the density of the function, as Xia scores
                GPAR. It punishes observations for their noise.
            matched: of the Gaussian with the mean and variance of the mixture, as Xia has it.
        """
        aligned = self.aligned(data)
        paths = self.paths(aligned.X, samples, seed)
        added = self._noise() if noise else tf.zeros_like(self._noise())
        found = {}
        for d, output in enumerate(aligned.outputs):
            mean, var = (tf.gather(a[..., d], output.rows, axis=1) for a in paths[:2])
            if matched:
                mean, var = tf.reduce_mean(mean, 0)[None], total_variance(mean, var)[None]
            y = tf.constant(output.Y[:, 0], mean.dtype)
            log_p = -0.5 * (
                tf.math.log(2 * np.pi * (var + added[d])) + tf.square(y - mean) / (var + added[d])
            )
            found[output.name] = tf.reduce_logsumexp(log_p, 0) - float(np.log(log_p.shape[0]))
        return self.of_data(found, data)

    def _noise(self) -> tf.Tensor:
        r"""$\sigma_l^2$ `[L]` in the units of the data and the order of `names`."""
        return tf.stack([self.layer(name).noise * self.scale[name].sd ** 2 for name in self.names])

    def _in_units(self, values: Sequence[tf.Tensor], squared: bool = False) -> tf.Tensor:
        """Standardised values, one tensor a layer, in the units of the data, side by side in the
        order of `names`.
        """
        parts = []
        for name in self.names:
            mean, sd = self.scale[name]
            own = values[self.order.index(name)]
            parts.append(own * sd**2 if squared else mean + sd * own)
        return tf.stack(parts, -1)

    def _given(self, given: Mapping[str, npt.ArrayLike], rows: int) -> dict[int, tf.Tensor]:
        """Standardised values `[N]` by position in the chain."""
        first = self.order[: len(given)]
        if set(given) != set(first):
            raise self.unsupported(
                f"is conditioned on the first outputs of its chain, {' → '.join(self.order)}, and"
                f" not on {', '.join(given)} alone",
                "Put those that are known first with order=.",
            )
        known = {}
        for position, name in enumerate(first):
            values = np.asarray(given[name], dtype=float).reshape(-1)
            check_known(name, values, rows)
            standardised = (values - self.scale[name].mean) / self.scale[name].sd
            known[position] = tf.constant(standardised, gpflow.default_float())
        return known


class _LayerSearch(LogSearch):
    """The search of a layer in a chain: it gets its data when its turn comes.

    Not before that: a run that is resumed sets the parameters of earlier layers last.
    """

    def __init__(self, chain: GPAR, position: int) -> None:
        super().__init__(chain._layers[position])
        self._chain, self._position = chain, position

    def read(self) -> Array:
        self._chain._send(self._position)
        return super().read()

    def write(self, x: Array) -> None:
        super().write(x)
        self._chain._forget(self._position)


def _checked_order(names: Sequence[str], order: Sequence[str]) -> tuple[str, ...]:
    if sorted(order) != sorted(names):
        raise ValueError(
            f"order={list(order)}; every output must be named once: {', '.join(names)}."
        )
    return tuple(order)
