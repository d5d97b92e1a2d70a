"""GPAR: outputs one after the other, each a GP regression on the inputs and the outputs before
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import gpflow
import numpy as np
import numpy.typing as npt
import pandas as pd
import tensorflow as tf
from gpflow.likelihoods import Gaussian

from mogp.data import Array, MultiOutputData, Output
from mogp.inducing import kmeans_points
from mogp.kernels import LayerKernels
from mogp.likelihoods import PerOutput
from mogp.models.base import Given, Replica
from mogp.models.chains.paths import PathMOGP, Paths, total_variance
from mogp.models.chains.regression import LEAST, Regression, Steps, logarithms
from mogp.priors import Marginals

_T = TypeVar("_T")


@dataclass(frozen=True)
class ChainHistory:
    """What training a chain did, layer by layer.

    Attributes:
        layers: by output, in the order of the chain.
    """

    layers: Mapping[str, Steps]

    @property
    def steps(self) -> int:
        """Steps of all layers together."""
        return sum(len(layer.evidence) for layer in self.layers.values())

    @property
    def seconds(self) -> float:
        """Time of all layers together."""
        return sum(layer.seconds for layer in self.layers.values())

    def frame(self) -> pd.DataFrame:
        """A row a step: `output`, `step` of its layer, `evidence` after it."""
        parts = [
            pd.DataFrame(
                {"output": name, "step": np.arange(1, len(s.evidence) + 1), "evidence": s.evidence}
            )
            for name, s in self.layers.items()
        ]
        return pd.concat(parts, ignore_index=True)

    def __str__(self) -> str:
        said = [
            f"{n}: {len(s.evidence)} steps, {s.seconds:.2f} s. {s.message}"
            for n, s in self.layers.items()
        ]
        return "\n".join([f"{self.steps} steps in {self.seconds:.1f} s.", *said])


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

    Args:
        data: one target column an output, any targets missing.
        kernels: of the layers.
        order: the outputs' names from first to last; as in the data if None.
        replace: see above.
        impute: see above.
        inducing: inducing inputs `[M, D]` of the first layer, or how many: evenly spaced for one
            input column, centres of clusters for more. Those of later layers add posterior means of
            the layers before. None: exact.
        noise: start value of the $\sigma_l^2$.
    """

    def __init__(
        self,
        data: MultiOutputData,
        kernels: LayerKernels,
        *,
        order: Sequence[str] | None = None,
        replace: bool = True,
        impute: bool = True,
        inducing: int | npt.ArrayLike | None = None,
        noise: float = 0.01,
    ) -> None:
        super().__init__()
        if kernels.input_dim != data.input_dim:
            raise ValueError(
                f"kernels for {kernels.input_dim} input columns; the data have {data.input_dim}."
            )
        wide = [o.name for o in data.outputs if o.Y.shape[1] != 1]
        if wide:
            raise ValueError(f"GPAR takes one target column an output; {', '.join(wide)} has more.")
        if not noise > LEAST:
            raise ValueError(f"noise={noise}; a variance above {LEAST} is expected.")
        self.schema = data.schema
        self.order = _checked_order(data.names, data.names if order is None else order)
        self.recipe = kernels
        self.replace, self.impute = replace, impute
        self.scale = {o.name: _mean_and_sd(o) for o in data.outputs}
        with logarithms():
            self.likelihood = PerOutput(
                {name: Gaussian(noise, variance_lower_bound=0.0) for name in self.names}
            )
            own = [kernels.layer(position) for position in range(len(self.order))]
        self._X = data.X
        self._Z = None if inducing is None else inducing_inputs(data, inducing)
        self._targets = {
            o.name: _Targets(
                o.name, o.rows, (o.Y[:, 0] - self.scale[o.name].mean) / self.scale[o.name].sd
            )
            for o in data.outputs
        }
        likelihoods = [self.likelihood.likelihoods[self.names.index(name)] for name in self.order]
        self._layers = tuple(Regression(*pair) for pair in zip(own, likelihoods, strict=True))
        self._sent = False

    @property
    def input_dim(self) -> int:
        """Columns of the inputs."""
        return self.recipe.input_dim

    @property
    def layers(self) -> tuple[Regression, ...]:
        """The regressions, in the order of the chain, with their data."""
        if not self._sent:
            self.propagate()
        return self._layers

    def layer(self, output: int | str) -> Regression:
        """The regression of an output."""
        return self.layers[self.order.index(self.names[self.index(output)])]

    def choices(self) -> dict[str, str]:
        """Layers, order and likelihood, in words."""
        points = "exact" if self._Z is None else f"{len(self._Z)} inducing inputs"
        return {
            "prior": f"a chain of {len(self.order)} layers, {' → '.join(self.order)}; {points}",
            "likelihood": "Gaussian, a variance for each output",
            "units": "those of the data; targets are standardised inside",
        }

    # --- training

    def fit(self, steps: int = 1000) -> ChainHistory:
        """Train the layers one after the other, each by at most `steps` steps of L-BFGS."""
        if steps < 1:
            raise ValueError(f"steps={steps}; at least one is needed.")
        return ChainHistory(
            dict(
                zip(self.order, self._along_the_chain(lambda layer: layer.fit(steps)), strict=True)
            )
        )

    def propagate(self) -> None:
        """Send the data down the chain again, after parameters were changed by hand."""
        self._along_the_chain(lambda layer: None)

    def _along_the_chain(self, train: Callable[[Regression], _T]) -> list[_T]:
        values, done = _Values(self._X, self._Z), []
        for position, (name, layer) in enumerate(zip(self.order, self._layers, strict=True)):
            reads = self.recipe.reads(position)
            layer.observe(*values.seen_by(self._targets[name], reads))
            done.append(train(layer))
            if position + 1 < len(self.order):
                values = values.extended(
                    layer, self._targets[name], reads, self.replace, self.impute
                )
        self._sent = True
        return done

    def log_evidence(self) -> dict[str, float]:
        r"""$\log p(\mathbf y_l \mid \mathbf y_{<l})$ of every layer, in the order of the chain.

        Of standardised targets, given what stands in for earlier outputs; a bound if there are
        inducing inputs.
        """
        return {name: layer.evidence() for name, layer in zip(self.order, self.layers, strict=True)}

    def elbo(self, data: Any = None) -> float:
        """The log evidence of all layers."""
        return sum(self.log_evidence().values())

    def training_loss(self, data: Any = None) -> float:
        """The negative log evidence of all layers."""
        return -self.elbo()

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
            y = tf.broadcast_to(known.get(position, drawn), drawn.shape)
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
        known = self._given(given or {}, int(X.shape[0]))
        normal = tf.random.stateless_normal(
            [2, len(self.layers), samples, X.shape[0]], [seed, 1], dtype=X.dtype
        )
        path, drawn = tf.tile(X[None], [samples, 1, 1]), []
        for position, layer in enumerate(self.layers):
            f = layer.draws(path if self.recipe.reads(position) else X[None], normal[0, position])
            y = tf.broadcast_to(
                known.get(position, f + tf.sqrt(layer.noise) * normal[1, position]), f.shape
            )
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
            raise ValueError(
                f"values of {', '.join(given)} are given; outputs can be conditioned on the first"
                f" of the chain, {' → '.join(self.order)}, only. Put those that are known first"
                " with order=."
            )
        known = {}
        for position, name in enumerate(first):
            values = np.asarray(given[name], dtype=float).reshape(-1)
            if len(values) != rows or not np.isfinite(values).all():
                raise ValueError(
                    f"given[{name!r}] holds {len(values)} values for {rows} rows; give a number for"
                    " each."
                )
            standardised = (values - self.scale[name].mean) / self.scale[name].sd
            known[position] = tf.constant(standardised, gpflow.default_float())
        return known


class Scale(NamedTuple):
    """Mean and standard deviation of the training targets of an output."""

    mean: float
    sd: float


class _Targets(NamedTuple):
    """Rows and standardised values of the observations of an output."""

    name: str
    rows: Array
    y: Array


class _Values(NamedTuple):
    """What layers read: `[N, D + l]` at all rows, NaN where an output has no value; `[M, D + l]` at
    inducing inputs.
    """

    X: Array
    Z: Array | None

    def seen_by(self, targets: _Targets, reads: range) -> tuple[Array, Array, Array | None]:
        """Inputs, targets and inducing inputs of the next layer."""
        kept = self._complete(reads)[targets.rows]
        if not kept.any():
            raise ValueError(
                f"no observation of {targets.name!r} is at a row where all outputs it reads have a"
                " value; use impute=True, or another order."
            )
        return np.nan_to_num(self.X[targets.rows[kept]]), targets.y[kept], self.Z

    def extended(
        self, layer: Regression, targets: _Targets, reads: range, replace: bool, impute: bool
    ) -> _Values:
        """With the values of one more output: observed, or means of its layer."""
        complete = self._complete(reads)
        column = np.full(len(self.X), np.nan)
        column[complete] = layer.mean(
            tf.constant(np.nan_to_num(self.X[complete]), gpflow.default_float())
        )
        count = np.bincount(targets.rows, minlength=len(column))
        if not impute:
            column[count == 0] = np.nan
        if not replace:
            total = np.bincount(targets.rows, targets.y, minlength=len(column))
            column[count > 0] = total[count > 0] / count[count > 0]
        if self.Z is None:
            return _Values(np.column_stack([self.X, column]), None)
        at_inducing = layer.mean(tf.constant(self.Z, gpflow.default_float()))
        return _Values(np.column_stack([self.X, column]), np.column_stack([self.Z, at_inducing]))

    def _complete(self, reads: range) -> Array:
        """Rows `[N]` at which all these columns have a value."""
        return np.asarray(np.isfinite(self.X[:, reads.start : reads.stop]).all(axis=1))


@dataclass(frozen=True)
class Ordering:
    """Outputs in an order that was searched for.

    Attributes:
        order: names, from first to last.
        scores: a row for every layer that was tried: `position`, `output`, `evidence` given the
            outputs chosen before, and whether it was `chosen`.
    """

    order: tuple[str, ...]
    scores: pd.DataFrame

    @property
    def evidence(self) -> float:
        """The log evidence of the chain."""
        return float(self.scores.loc[self.scores["chosen"], "evidence"].sum())


def greedy_order(
    data: MultiOutputData,
    kernels: LayerKernels,
    *,
    steps: int = 1000,
    replace: bool = True,
    impute: bool = True,
    inducing: int | npt.ArrayLike | None = None,
    noise: float = 0.01,
) -> Ordering:
    """An order of the outputs for `GPAR`: at each position the one with the highest log evidence
    given those before.

    Every output left is tried at every position, $L(L+1)/2$ layers in all. Log evidences are of
    standardised targets and sums over observations, so that outputs with few of them are low in
    number, whatever they are worth.

    Args:
        data: as for `GPAR`, and so are the other arguments.
        kernels: of the layers.
        steps: of L-BFGS at most, for every layer tried.
        replace: see `GPAR`.
        impute: see `GPAR`.
        inducing: see `GPAR`.
        noise: see `GPAR`.
    """
    model = GPAR(data, kernels, replace=replace, impute=impute, inducing=inducing, noise=noise)
    chain, order, tried = _Values(model._X, model._Z), [], []
    for position in range(len(model.names)):
        reads = kernels.reads(position)
        layers = {}
        for name in (n for n in model.names if n not in order):
            with logarithms():
                layers[name] = Regression(
                    kernels.layer(position), Gaussian(noise, variance_lower_bound=0.0)
                )
            layers[name].observe(*chain.seen_by(model._targets[name], reads))
            layers[name].fit(steps)
        evidence = {name: layer.evidence() for name, layer in layers.items()}
        best = max(evidence, key=lambda name: evidence[name])
        tried += [
            {"position": position, "output": n, "evidence": e, "chosen": n == best}
            for n, e in evidence.items()
        ]
        order.append(best)
        chain = chain.extended(layers[best], model._targets[best], reads, replace, impute)
    return Ordering(tuple(order), pd.DataFrame(tried))


def _checked_order(names: Sequence[str], order: Sequence[str]) -> tuple[str, ...]:
    if sorted(order) != sorted(names):
        raise ValueError(
            f"order={list(order)}; every output must be named once: {', '.join(names)}."
        )
    return tuple(order)


def _mean_and_sd(output: Output) -> Scale:
    """Of the targets; a standard deviation of one for targets that are all alike."""
    sd = float(np.std(output.Y))
    return Scale(float(np.mean(output.Y)), sd if sd > 0 else 1.0)


def inducing_inputs(data: MultiOutputData, inducing: int | npt.ArrayLike, seed: int = 0) -> Array:
    """`[M, D]`: those given, or so many, evenly spaced over one input column and centres of
    clusters of several.

    All distinct inputs if there are no more than that.
    """
    if np.ndim(inducing) == 0:
        count, distinct = int(np.asarray(inducing)), np.unique(data.X, axis=0)
        if count < 1:
            raise ValueError(f"inducing={count}; at least one inducing input is needed.")
        if count >= len(distinct):
            return np.asarray(distinct)
        if data.input_dim == 1:
            return np.asarray(np.linspace(distinct[0], distinct[-1], count))
        centres: Array = np.asarray(kmeans_points(data, count, seed=seed).Z)
        return centres
    Z: Array = np.asarray(inducing, dtype=float)
    Z = Z[:, None] if Z.ndim == 1 else Z
    if Z.ndim != 2 or Z.shape[1] != data.input_dim or not np.isfinite(Z).all():
        raise ValueError(
            f"inducing inputs have shape {Z.shape}; expected finite numbers, [M, {data.input_dim}]."
        )
    return Z
