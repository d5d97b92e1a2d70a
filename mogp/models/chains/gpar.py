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
from mogp.models.base import Data, Given
from mogp.models.chains.path_model import PathMOGP, TargetPaths, check_known, total_variance
from mogp.models.chains.regression import LEAST, Regression, logarithms
from mogp.models.chains.starts import LayerSearch, start_logarithms, warn_of_noise
from mogp.models.chains.values import (
    Scale,
    Targets,
    Values,
    checked_order,
    inducing_inputs,
    layer_kernels,
)
from mogp.models.chains.walk import (
    PASSED,
    Look,
    Passes,
    Step,
    checked_passes,
    row_by_row,
    together,
    walk,
)
from mogp.models.chains.weights import weighted_paths
from mogp.models.choices import ScalingChoice, in_units
from mogp.models.stages import Stage
from mogp.optimizers import LBFGS, Problem
from mogp.priors import Marginals

_MOST_PATHS = 1 << 16
_MOST_JOINT = 1 << 12


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

    Where a layer reads earlier outputs at a new row, it reads what `passes` says:

    - `"means"`: $m_j = \mathbb E f_j(x, m_1, \dots, m_{j-1})$, as in training. There is one path,
      and an output is Gaussian: $y_l \sim N(m_l, v_l + \sigma_l^2)$, with $v_l$ the variance of
      $f_l$ at $(x, m_1, \dots, m_{l-1})$. That earlier functions are not known for certain does
      not widen it. (The rule with `replace`, and that of the authors' program.)
    - `"functions"`: a draw $h_j$ of $f_j(x, h_1, \dots, h_{j-1})$, without noise. Layers that read
      means in training are good for it: a mean was their estimate of the function. An output is
      then a mixture of Gaussians, one a path, and wider where earlier functions are uncertain.
    - `"noisy"`: a draw of the target $y_j$, noise included: what layers read in training without
      `replace`, and the rule then.

    Layers trained on values without noise are not fit for noisy ones, nor the other way round: such
    pairs of `replace` and `passes` are refused.

    With `given`, targets that are known at new rows, $f_j$ is conditioned on
    $y_j = f_j + \epsilon_j$ there: means and draws are those given $y_j$, and `"noisy"` passes on
    $y_j$ itself. Outputs *later* in the chain tell of earlier ones by weights: paths are drawn
    forward, and count in proportion to the density $\prod_l N(y_l \mid m_l, v_l + \sigma_l^2)$ that
    they give to what is known. Since a mean has nothing to weigh, `"means"` passes on draws of
    functions at rows where a later output is known. A call fails if fewer than 50 effective paths
    are left. `predict_f` and `predict_y` take each row by itself, so that their answer does not
    depend on the other rows; joint draws are given all that is known at any row. A target that is
    known is predicted to be what it is.

    `LayerKernels(..., markov=0)` gives independent GPs (IGP); `order=data.names[::-1]` is "GPAR
    backward".

    The model holds its data. `mogp.fit(model, data)` trains it on those and refuses others; it has
    a stage for each start of each layer, by L-BFGS on the logarithms of the parameters. A start
    $s = 0, 1, \dots$ has $10^{s \bmod 2}$ times the noise and $1, 1, a, a, 1/a, 1/a, a^2, \dots$
    times the lengthscales, $a = 3\sqrt D$; the layer keeps the parameters of the best evidence. A
    layer that ends as white noise is warned of.

    Args:
        data: one target column an output, any targets missing.
        kernel: of the layers; if None linear and nonlinear terms over the outputs, and
            lengthscales of a tenth of the range of each input column.
        order: the outputs' names from first to last; as in the data if None.
        replace: see above.
        impute: see above.
        passes: see above; `"means"` with `replace` and `"noisy"` without, if None.
        inducing: inducing inputs `[M, D]` of the first layer, or how many: evenly spaced for one
            input column, centres of clusters for more. Those of later layers add posterior means of
            the layers before. None: exact.
        noise: start value of the $\sigma_l^2$.
        starts: how many for each layer.
        scaling: see `gplar`.
        seed: of the clusters.

    >>> import mogp
    >>> x = [[0.0], [0.3], [0.5], [1.0]]
    >>> y = [[0.0, 1.0], [0.6, 1.2], [0.9, 1.9], [0.8, float("nan")]]
    >>> data = mogp.MultiOutputData.from_arrays(x, y, names=["first", "second"])
    >>> model = GPAR(data, starts=1)
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
        passes: Passes | None = None,
        inducing: int | npt.ArrayLike | None = None,
        noise: float = 0.01,
        starts: int = 2,
        scaling: ScalingChoice = "standard",
        seed: int = 0,
    ) -> None:
        super().__init__()
        self._fingerprint = data.fingerprint
        data = in_units(scaling, data)
        self.scaling = data.scaled_by
        wide = [o.name for o in data.outputs if o.Y.shape[1] != 1]
        if wide:
            raise ValueError(f"GPAR takes one target column an output; {', '.join(wide)} has more.")
        if not noise > LEAST:
            raise ValueError(f"noise={noise}; a variance above {LEAST} is expected.")
        if starts < 1:
            raise ValueError(f"starts={starts}; a layer has at least one.")
        self.schema = data.schema
        self.order = checked_order(data.names, data.names if order is None else order)
        self.recipe = layer_kernels(data, kernel)
        self.replace, self.impute, self.starts = replace, impute, starts
        self.passes = checked_passes(passes, replace)
        self.scale = {o.name: Scale.of(o) for o in data.outputs}
        with logarithms():
            self.likelihood = PerOutput(
                {name: Gaussian(noise, variance_lower_bound=0.0) for name in self.names}
            )
            own = [self.recipe.layer(position) for position in range(len(self.order))]
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
            "passes on": PASSED[self.passes],
            "likelihood": "Gaussian, a variance for each output",
            "units": "targets are standardised",
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
        """A stage for each start of each layer, named by its output, in the order of the chain."""
        if size is not None:
            raise UnsupportedError(
                f"GPAR has no mini-batches (batch_size={size}): every layer is an exact or sparse"
                " regression on all its rows. Leave batch_size out, and for many rows give"
                " inducing=; or use gplar, which is trained on mini-batches."
            )
        self.check(data)
        self._forget(0)
        found = []
        for position, (name, layer) in enumerate(zip(self.order, self._layers, strict=True)):
            for number in range(self.starts):
                start = start_logarithms(layer, number, self.input_dim) if number else None
                title = f"{name}, start {number + 1}" if number else name
                last = number == self.starts - 1
                problem = partial(self._problem, position, start)
                after = partial(warn_of_noise, layer, name) if last else None
                found.append(Stage(title, problem, LBFGS(), only=LBFGS, after=after))
        return found

    def propagate(self) -> None:
        """Send the data down the chain again, after parameters were changed by hand."""
        self._forget(0)
        self._send(len(self.order) - 1)

    def _problem(self, position: int, start: Array | None) -> Problem:
        layer = self._layers[position]
        search = LayerSearch(
            layer, partial(self._send, position), partial(self._forget, position), start
        )
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

    # --- prediction

    def posterior_means(self, Xnew: Any) -> Array:
        """Means `[N, L]`, without noise, of standardised outputs in the chain's order."""
        return self.means_at(self.at(Xnew))

    def means_at(self, path: tf.Tensor) -> Array:
        """The same at inputs as the kernels read them."""
        for layer in self.layers:
            path = tf.concat([path, layer.mean(path)[:, None]], 1)
        return np.asarray(path[:, self.input_dim :])

    def paths(
        self, Xnew: Any, samples: int = 100, seed: int = 0, given: Given = None
    ) -> TargetPaths:
        """Sampled paths at `Xnew [N, D]`, each point on its own, in the units of the data and the
        order of `names`; `draws` are of targets.

        Args:
            Xnew: where.
            samples: paths, `S`.
            seed: of the draws.
            given: values `[N]` of outputs that are known at these rows, NaN where they are not.
        """
        return self._paths(self.at(Xnew), samples, seed, given)

    def _paths(
        self, X: tf.Tensor, samples: int = 100, seed: int = 0, given: Given = None
    ) -> TargetPaths:
        known = self._given(given, int(X.shape[0]))
        if not known:
            return self._in_paths(self._walk(X, samples, [seed, 0], {}, row_by_row)[0], samples)

        def propose(rows: Array, count: int) -> tuple[list[Array], Array]:
            own = {position: tf.gather(values, rows) for position, values in known.items()}
            found, log_density = self._walk(tf.gather(X, rows), count, [seed, 0], own, row_by_row)
            return [np.asarray(a) for a in self._in_paths(found, count)], log_density.numpy()

        kept = weighted_paths(propose, int(X.shape[0]), samples, _MOST_PATHS)
        return TargetPaths(*(tf.constant(a, X.dtype) for a in kept))

    def _walk(
        self,
        X: tf.Tensor,
        samples: int,
        seed: Sequence[int],
        known: Mapping[int, tf.Tensor],
        look: Look,
    ) -> tuple[list[Step], tf.Tensor]:
        if samples < 1:
            raise ValueError(f"samples={samples}; at least one path is needed.")
        shape = [2, len(self.layers), samples, X.shape[0]]
        normal = tf.random.stateless_normal(shape, list(seed), dtype=X.dtype)
        return walk(self.layers, self.recipe.reads, X, normal, known, self.passes, look)

    def _in_paths(self, steps: Sequence[Step], samples: int) -> TargetPaths:
        shape = [samples, *steps[0].y.shape[1:]]
        mean, var, y_mean, y_var, _, y = (
            [tf.broadcast_to(a, shape) for a in same] for same in zip(*steps, strict=True)
        )
        units = partial(self._in_units, squared=True)
        return TargetPaths(
            self._in_units(mean),
            units(var),
            self._in_units(y),
            self._in_units(y_mean),
            units(y_var),
        )

    def _mixed(self, paths: TargetPaths, outputs: Sequence[int]) -> Marginals:
        mean, var = (tf.gather(a, list(outputs), axis=2) for a in paths[:2])
        return Marginals(tf.reduce_mean(mean, 0), total_variance(mean, var))

    def _targets_of(self, X: tf.Tensor, paths: TargetPaths, outputs: Sequence[int]) -> Marginals:
        mean, var = (tf.gather(a, list(outputs), axis=2) for a in (paths.y_mean, paths.y_var))
        return Marginals(tf.reduce_mean(mean, 0), total_variance(mean, var))

    def _draw_f(
        self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int, given: Given = None
    ) -> tf.Tensor:
        return self._joint_draws(X, outputs, samples, seed, given, latent=True)

    def _draw_y(
        self, X: tf.Tensor, outputs: Sequence[int], samples: int, seed: int, given: Given = None
    ) -> tf.Tensor:
        return self._joint_draws(X, outputs, samples, seed, given, latent=False)

    def _draw_y_apart(
        self, X: tf.Tensor, output: int, samples: int, seed: int, given: Given = None
    ) -> tf.Tensor:
        return self._paths(X, samples, seed, given).draws[..., output : output + 1]

    def _joint_draws(
        self,
        X: tf.Tensor,
        outputs: Sequence[int],
        samples: int,
        seed: int,
        given: Given,
        latent: bool,
    ) -> tf.Tensor:
        if X.shape[0] == 0:
            return tf.zeros([samples, 0, len(outputs)], X.dtype)
        known = self._given(given, int(X.shape[0]))

        def propose(rows: Array, count: int) -> tuple[list[Array], Array]:
            steps, log_density = self._walk(X, count, [seed, 1], known, together)
            drawn = self._in_units([one.f if latent else one.y for one in steps])
            return [drawn.numpy()[:, None]], log_density.numpy()

        # All rows are one: a path is a draw of functions, with one weight.
        (drawn,) = weighted_paths(propose, 1, samples, _MOST_JOINT)
        return tf.gather(tf.constant(drawn[:, 0], X.dtype), list(outputs), axis=2)

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
        """Standardised values of each layer in the units of the data, in the order of `names`."""
        parts = []
        for name in self.names:
            mean, sd = self.scale[name]
            own = values[self.order.index(name)]
            parts.append(own * sd**2 if squared else mean + sd * own)
        return tf.stack(parts, -1)

    def _given(self, given: Given, rows: int) -> dict[int, tf.Tensor]:
        """Standardised values `[N]` by position in the chain, of outputs known at some rows."""
        known = {}
        for output, given_values in (given or {}).items():
            name = self.names[self.index(output)]
            values = np.asarray(given_values, dtype=float).reshape(-1)
            check_known(name, values, rows)
            if not np.isnan(values).all():
                standardised = (values - self.scale[name].mean) / self.scale[name].sd
                known[self.order.index(name)] = tf.constant(standardised, gpflow.default_float())
        return known
