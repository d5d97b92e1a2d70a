"""`LatentChain`: sparse GPs that read the inputs and the values of GPs before them; GPLAR and its
relatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp
from gpflow.likelihoods import Likelihood

from mogp.data import MultiOutputData, Names, Scaling, Schema
from mogp.data.batches import Batch
from mogp.kernels import KernelStack, parameters_read_once
from mogp.likelihoods import PerOutput
from mogp.linalg import cholesky
from mogp.models.base import check_samples
from mogp.models.chains.path_model import Paths, where_known
from mogp.models.chains.paths import joint_draw
from mogp.models.chains.structure import (
    Component,
    Layer,
    check_inducing,
    check_structure,
    checked_points,
    read_columns,
)
from mogp.models.chains.terms import at_rows, expectations, log_prob
from mogp.models.chains.trained import TrainsPaths
from mogp.posteriors import Factors, Full

SMALLEST_VARIANCE = 1e-12


class LatentChain(TrainsPaths):
    r"""Sparse GPs in a chain, trained through sampled paths (Xia, chapters 2 and 3).

    GP $c$ reads the inputs and values of GPs before it, $\hat x_c = (x, h_{a_1}, h_{a_2}, \dots)$,
    and has $h_c \mid \hat x_c \sim N(f_c(\hat x_c), \sigma_c^2)$. With
    $q(\mathbf u_c) = N(\mathbf m_c, \mathbf S_c)$ over its values at $\mathbf Z_c$,

    $$q(h_c \mid \hat x_c) = N(\mu_c, s_c^2),\quad \mu_c = \mathbf k_c^\top\mathbf K_c^{-1}\mathbf
      m_c,\quad s_c^2 = k_c(\hat x_c, \hat x_c) - \mathbf k_c^\top\mathbf K_c^{-1}(\mathbf K_c -
        \mathbf S_c)\mathbf K_c^{-1}
      \mathbf k_c + \sigma_c^2.$$

    A latent function of an output is a weighted sum, $h_j = \sum_c w_{jc} h_c$. A path draws
    $h_c = \mu_c + \varepsilon_c s_c$ GP by GP; over $S$ paths a row

    $$\mathcal L = \sum_{d,n} \frac1S\sum_r
      \mathbb E_{N(\sum_c w_{jc}\mu_{cnr},\ \sum_c w_{jc}^2 s_{cnr}^2)} \log p(y_{dn} \mid h_j)
      - \sum_c \mathrm{KL}[q(\mathbf u_c)\|p(\mathbf u_c)]$$

    is an unbiased estimate of a bound on $\log p(\mathbf Y)$ for every $S \ge 1$. Only what is
    drawn before a function is sampled; the function itself is integrated. Outputs that read several
    functions (softmax over classes) are evaluated at the drawn values, since one function of the
    output may have read another. `RobustMax`, whose density is flat, is the exception, as
    published: it takes the functions of a path to be independent, and then the estimate is biased.

    Rows at which an output was not observed have no term for it and are propagated all the same, so
    that later outputs teach earlier ones.

    Inducing inputs are parameters of their own, or tied (strategy C): $\mathbf Z_c = [\mathbf Z,
    \mathbf m_{a_1}, \mathbf m_{a_2}, \dots]$, rebuilt at every evaluation, so that gradients reach
    $\mathbf Z$ and the means.

    Args:
        components: the GPs, in order.
        functions: for each latent function of the likelihoods, its weights $w_{jc}$ by number of
            the GP.
        likelihood: one for each output, as for `SparseMOGP`.
        inducing: for each component its inducing inputs `[M, columns]`, or None for tied ones.
        shared: $\mathbf Z$ `[M, P]` of tied components; needed only for them.
        input_dim: columns of the inputs, `P`.
        names: of the outputs, or `data.schema`: see `SparseMOGP`.
        location, scale: by output; targets are $(y - \text{location}) / \text{scale}$ inside the
            model, and the bound is that of `y` itself.
        whiten: parametrise $\mathbf v_c$ in $\mathbf u_c = \mathbf L_c\mathbf v_c$ rather than
            $\mathbf u_c$.
        inner: start value of the inner noise variances $\sigma_c^2$, which are not trained unless
            made trainable (for the last output the bound always falls with them).
        samples: paths a row in training, $S$.
        importance: train `importance_bound` instead, with the paths of a row weighted rather than
            averaged.
        seed: of the draws in training.
        scaling: of the inputs; those of the data if None.

    >>> from gpflow.kernels import SquaredExponential
    >>> from mogp import MultiOutputData, fit
    >>> from mogp.likelihoods import Gaussian
    >>> from mogp.models import Component
    >>> first = Component(SquaredExponential())
    >>> second = Component(SquaredExponential(lengthscales=[1.0, 1.0]), arguments=((0,),))
    >>> model = LatentChain(
    ...     [first, second],
    ...     functions=[{0: 1.0}, {1: 1.0}],
    ...     likelihood=[Gaussian(), Gaussian()],
    ...     inducing=[None, None],
    ...     shared=[[0.0], [0.5], [1.0]],
    ...     input_dim=1,
    ... )
    >>> data = MultiOutputData.from_arrays([[0.0], [0.3], [1.0]], [[0.1, 0.2], [0.4, 0.5], [0, 1]])
    >>> fit(model, data, steps=2, progress=False).steps
    2
    >>> [layer.Z.shape for layer in model.layers()]
    [TensorShape([3, 1]), TensorShape([3, 2])]
    """

    def __init__(
        self,
        components: Sequence[Component],
        functions: Sequence[Mapping[int, float]],
        likelihood: Likelihood | Sequence[Likelihood] | Mapping[str, Likelihood] | PerOutput,
        inducing: Sequence[npt.ArrayLike | gpflow.Parameter | None],
        shared: npt.ArrayLike | None = None,
        *,
        input_dim: int,
        names: Names = None,
        location: npt.ArrayLike = 0.0,
        scale: npt.ArrayLike = 1.0,
        whiten: bool = True,
        inner: float = 1e-5,
        samples: int = 1,
        importance: bool = False,
        seed: int = 0,
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__()
        check_samples(samples)
        self.scaling = scaling
        if isinstance(likelihood, Likelihood):
            likelihood = [likelihood]
        self.likelihood = likelihood if isinstance(likelihood, PerOutput) else PerOutput(likelihood)
        self.kernels = tuple(component.kernel for component in components)
        self._reads = tuple(tuple(component)[1:] for component in components)
        self.functions = tuple(dict(weights) for weights in functions)
        self._input_dim = input_dim
        check_structure(self.components, self.functions, self.likelihood)
        self.schema = Schema.of(
            self.likelihood.output_names if names is None else names,
            len(self.likelihood.likelihoods),
        )
        self.location, self.scale = (
            np.array(np.broadcast_to(np.asarray(a, float), (len(self.names),)))
            for a in (location, scale)
        )
        self.shared = None if shared is None else gpflow.Parameter(checked_points(shared))
        self.inducing = tuple(
            Z
            if Z is None or isinstance(Z, gpflow.Parameter)
            else gpflow.Parameter(checked_points(Z))
            for Z in inducing
        )
        check_inducing(self.components, self.inducing, self.shared, input_dim)
        self.posterior = Full(whiten)
        self.posterior.build(self.num_gps, 1, self.num_inducing)
        self.inner = gpflow.Parameter(
            np.full(self.num_gps, inner),
            transform=tfp.bijectors.Square(),
            trainable=False,
            name="inner",
        )
        self.samples, self.importance, self.seed = samples, importance, seed
        self.generator = tf.random.Generator.from_seed(seed, alg="philox")

    @property
    def input_dim(self) -> int:
        """Columns of the inputs."""
        return self._input_dim

    @property
    def components(self) -> tuple[Component, ...]:
        """What the chain is made of."""
        return tuple(
            Component(kernel, *reads)
            for kernel, reads in zip(self.kernels, self._reads, strict=True)
        )

    @property
    def num_gps(self) -> int:
        """GPs in the chain, copies counted."""
        return sum(component.copies for component in self.components)

    @property
    def num_inducing(self) -> int:
        """Inducing variables of a GP, `M`."""
        first = next(Z for Z in (self.shared, *self.inducing) if Z is not None)
        return int(first.shape[0])

    def choices(self) -> dict[str, str]:
        """Components, inducing variables, posterior and likelihoods, in words."""
        kinds = dict.fromkeys(type(one).__name__ for one in self.likelihood.likelihoods)
        tied = sum(Z is None for Z in self.inducing)
        return {
            "prior": f"a chain of {self.num_gps} GPs makes {len(self.functions)} functions",
            "inducing": f"{self.num_inducing} for each GP, in {tied} GPs tied to those before",
            "posterior": f"Full{', whitened' if self.posterior.whiten else ''}",
            "likelihood": ", ".join(kinds),
            "units": "targets of Gaussian outputs are standardised",
        }

    def maximum_log_likelihood_objective(self, data: Any = None) -> tf.Tensor:
        """The bound that is trained: `elbo`, or `importance_bound`."""
        return self.importance_bound(data) if self.importance else self.elbo(data)

    def elbo(self, data: Batch | MultiOutputData, noise: tf.Tensor | None = None) -> tf.Tensor:
        r"""The evidence lower bound, estimated with `samples` paths a row.

        Args:
            data: a batch, or all data.
            noise: $\varepsilon$ `[GPs, S, rows]` in place of new standard normal draws.
        """
        batch = self._batch(data)
        with parameters_read_once():
            layers = self.layers()
            terms = [
                tf.reduce_sum(t)
                for _, t in expectations(self, batch, self._run(layers, batch.X, noise))
            ]
            return tf.add_n(terms) - self.kl(layers)

    def data_terms(
        self, data: Batch | MultiOutputData, noise: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The expected log-likelihood of each output, scaled to all its rows, `[D]`."""
        batch = self._batch(data)
        terms: dict[int, tf.Tensor] = {}
        paths = self._run(self.layers(), batch.X, noise)
        for outputs, weighted in expectations(self, batch, paths):
            sizes = [paths.number * tf.shape(batch.outputs[d].weight)[0] for d in outputs]
            for d, own in zip(outputs, tf.split(weighted, sizes), strict=True):
                terms[d] = tf.reduce_sum(own)
        return tf.stack([terms[d] for d in range(len(self.names))])

    def importance_bound(
        self,
        data: Batch | MultiOutputData,
        noise: tf.Tensor | None = None,
        values: tf.Tensor | None = None,
    ) -> tf.Tensor:
        r"""A bound with the paths of a row weighted by how well they explain it.

        $$\mathcal L_S = \mathbb E_{q(\mathbf u)} \sum_n \mathbb E \log\frac1S\sum_{r=1}^S
          \prod_d p(y_{dn} \mid h^{(r)}_n) - \sum_c\mathrm{KL}[q(\mathbf u_c)\|p(\mathbf u_c)],$$

        where the $S$ paths of a row are drawn given the same inducing values $\mathbf u$. It is the
        ELBO for $S = 1$ and grows with $S$ towards a bound on the evidence of the model in which
        rows are independent given $\mathbf u$. (With new inducing values for every path, as one
        might read the formula, it bounds nothing.)

        Args:
            data: a batch, or all data.
            noise: as for `elbo`.
            values: `[GPs, M]` standard normal draws behind the inducing values.
        """
        batch = self._batch(data)
        with parameters_read_once():
            layers = self.layers()
            kl = self.kl(layers)
            if values is None:
                values = self.generator.normal(
                    [self.num_gps, self.num_inducing], dtype=gpflow.default_float()
                )
            paths = self._run(self._at_values(layers, values), batch.X, noise)
            weight = tf.zeros(tf.shape(batch.X)[0], batch.X.dtype)
            log_p = tf.zeros([paths.number, tf.shape(batch.X)[0]], batch.X.dtype)
            for d, own in enumerate(batch.outputs):
                here = tf.cast(own.weight > 0, log_p.dtype) * log_prob(self, d, own, batch.X, paths)
                log_p += at_rows(here, own.rows, tf.shape(batch.X)[0])
                weight = tf.maximum(weight, at_rows(own.weight, own.rows, tf.shape(batch.X)[0]))
            mean = tf.reduce_logsumexp(log_p, 0) - tf.math.log(tf.cast(paths.number, log_p.dtype))
            return tf.reduce_sum(weight * mean) - kl

    def kl(self, layers: Sequence[Layer] | None = None) -> tf.Tensor:
        """`KL[q(u) || p(u)]`, summed over the GPs."""
        layers = self.layers() if layers is None else layers
        return tf.add_n([tf.reduce_sum(self.posterior.kl(layer.factors)) for layer in layers])

    def layers(self) -> list[Layer]:
        """The inducing inputs of every component, and their covariance factorised.

        Covariances of inducing inputs that are not tied are factorised together.
        """
        copies = [component.copies for component in self.components]
        locations = tf.split(tf.transpose(tf.convert_to_tensor(self.posterior.q_mu)), copies)
        scales = tf.split(tf.convert_to_tensor(self.posterior.q_sqrt), copies)
        stacks = [KernelStack(kernel) for kernel in self.kernels]
        free = {
            c: stacks[c].K(tf.convert_to_tensor(Z))
            for c, Z in enumerate(self.inducing)
            if Z is not None
        }
        roots: dict[int, tf.Tensor] = {}
        if free:
            together = cholesky(tf.concat([*free.values()], 0), name="Kuu")
            roots = dict(zip(free, tf.split(together, len(free)), strict=True))
        layers: list[Layer] = []
        means: list[tf.Tensor] = []
        for c, (component, location, scale) in enumerate(
            zip(self.components, locations, scales, strict=True)
        ):
            own = self.inducing[c]
            Z = self._tied(component, means) if own is None else tf.convert_to_tensor(own)
            Kuu = stacks[c].K(Z) if own is None else free[c]
            L = cholesky(Kuu, name="Kuu") if own is None else roots[c]
            mean = (
                tf.linalg.matmul(location, L[0], transpose_b=True)
                if self.posterior.whiten
                else location
            )
            layers.append(Layer(Z, Factors(Kuu, L, location[:, None], scale[:, None]), mean))
            means += tf.unstack(mean)
        return layers

    def run(
        self,
        X: tf.Tensor,
        noise: tf.Tensor,
        layers: Sequence[Layer] | None = None,
        given: Mapping[int, tf.Tensor] | None = None,
    ) -> Paths:
        r"""Send rows through the chain.

        Args:
            X: `[N, P]` inputs.
            noise: $\varepsilon$ `[GPs, S, N]`; zeros propagate means.
            layers: if they are known already.
            given: values `[N]` of some GPs, by number, in place of draws.
        """
        layers = self.layers() if layers is None else layers
        inner = tf.convert_to_tensor(self.inner)
        draws: list[tf.Tensor] = []
        moments: list[tuple[tf.Tensor, tf.Tensor]] = []
        for component, layer in zip(self.components, layers, strict=True):
            kernel, columns = KernelStack(component.kernel), read_columns(component, X, draws)
            Kuf, Kff = kernel.K(layer.Z, columns), kernel.K_diag(columns)
            shape = [component.copies, -1, tf.shape(X)[0]]
            mean, var = (
                tf.reshape(a, shape) for a in self.posterior.project(layer.factors, Kuf, Kff)
            )
            for copy in range(component.copies):
                number = len(draws)
                spread = tf.maximum(var[copy] + inner[number], SMALLEST_VARIANCE)
                moments.append((mean[copy], spread))
                drawn = mean[copy] + noise[number] * tf.sqrt(spread)
                draws.append(where_known((given or {}).get(number), drawn))
        means, variances = zip(*moments, strict=True)
        return Paths(
            mean=self._mix(means, noise, 1),
            var=self._mix(variances, noise, 2),
            draws=self._mix(draws, noise, 1),
        )

    def joint(self, X: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """Joint draws `[S, N, J]` of the functions over all rows, from noise `[GPs, S, N]`."""
        inner = tf.split(
            tf.convert_to_tensor(self.inner), [component.copies for component in self.components]
        )
        draws: list[tf.Tensor] = []
        for component, layer, own in zip(self.components, self.layers(), inner, strict=True):
            columns = read_columns(component, X, draws)
            columns = tf.reshape(columns, [-1, X.shape[0], columns.shape[1]])
            columns = tf.broadcast_to(columns, [noise.shape[1], *columns.shape[1:]])
            here = noise[len(draws) : len(draws) + component.copies]
            draws += tf.unstack(
                joint_draw(
                    component.kernel, self.posterior, layer.Z, layer.factors, columns, here, own
                )
            )
        return self._mix(draws, noise, 1)

    def number_of(self, output: int | str) -> int:
        """The GP that is the one function of an output."""
        d = self.index(output)
        weights = [self.functions[j] for j in self.likelihood.functions(d)]
        if len(weights) != 1 or list(weights[0].values()) != [1]:
            raise self.unsupported(
                f"makes output {self.names[d]!r} of several GPs: its values cannot be given",
                "Use gplar, or GPAR, in which an output is one GP.",
            )
        return next(iter(weights[0]))

    def _run(self, layers: Sequence[Layer], X: tf.Tensor, noise: tf.Tensor | None) -> Paths:
        if noise is None:
            noise = self.generator.normal(
                [self.num_gps, self.samples, tf.shape(X)[0]], dtype=X.dtype
            )
        return self.run(X, noise, layers)

    def _mix(self, values: Sequence[tf.Tensor], noise: tf.Tensor, power: int) -> tf.Tensor:
        """`[S, N, J]`: sums over GPs with weights to a power, for values `[S or 1, N]` of each
        GP.
        """
        mixed = [
            reduce(add, (w**power * values[c] for c, w in weights.items()))
            for weights in self.functions
        ]
        return tf.stack([tf.broadcast_to(one, tf.shape(noise)[1:]) for one in mixed], -1)

    def _tied(self, component: Component, means: Sequence[tf.Tensor]) -> tf.Tensor:
        """Inducing inputs made of the shared ones and of the means of what the component reads."""
        own = [tf.convert_to_tensor(self.shared)] if component.inputs else []
        read = [tf.add_n([means[c] for c in argument])[:, None] for argument in component.arguments]
        return tf.concat([*own, *read], 1)

    def _at_values(self, layers: Sequence[Layer], noise: tf.Tensor) -> list[Layer]:
        """The layers with the inducing values drawn: `q(u)` replaced by a point."""
        copies = [component.copies for component in self.components]
        drawn = []
        for layer, own in zip(layers, tf.split(noise, copies), strict=True):
            Kuu, L, location, scale = layer.factors
            at = location + tf.linalg.matvec(scale, own[:, None])
            drawn.append(layer._replace(factors=Factors(Kuu, L, at, tf.zeros_like(scale))))
        return drawn

    def _batch(self, data: Batch | MultiOutputData) -> Batch:
        if isinstance(data, MultiOutputData):
            self.check(data)
            full: Batch = self.scaled(data).full()
            return full
        return data

    def check(self, data: MultiOutputData) -> None:
        """Raise unless the model can be trained on the data: outputs, inputs, targets that the
        likelihoods allow.
        """
        self.check_names(data)
        self.likelihood.check(data)
