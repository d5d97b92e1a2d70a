"""`LatentChain`: sparse GPs that read the inputs and the values of GPs before them; GPLAR and its
relatives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp
from gpflow import likelihoods as stock
from gpflow.kernels import Kernel
from gpflow.likelihoods import Likelihood

from mogp.data import Array, MultiOutputData, Names, Output, Schema
from mogp.data.batches import Batch, OutputBatch
from mogp.kernels import KernelStack, parameters_read_once
from mogp.likelihoods import PerOutput, ReadsFunctions, Softmax
from mogp.likelihoods.groups import groups
from mogp.linalg import cholesky
from mogp.models.chains.paths import Paths, PredictsPaths, joint_draw
from mogp.posteriors import Factors, Full

SMALLEST_VARIANCE = 1e-12


class Component(NamedTuple):
    """GPs of a chain that share a kernel, inducing inputs and what they read.

    A GP is numbered by its place in the chain, copies of a component one after the other.

    Attributes:
        kernel: over the columns `[x, arguments]`, or `[arguments]` alone.
        arguments: for each further column, the GPs before this component whose values add up to it.
        inputs: whether it reads `x`.
        copies: how many GPs.
    """

    kernel: Kernel
    arguments: tuple[tuple[int, ...], ...] = ()
    inputs: bool = True
    copies: int = 1


class Layer(NamedTuple):
    """What all rows share of a component.

    Attributes:
        Z: `[M, columns]` inducing inputs.
        factors: of the covariance of its inducing values.
        mean: `[copies, M]` means of the inducing values themselves.
    """

    Z: tf.Tensor
    factors: Factors
    mean: tf.Tensor


class LatentChain(PredictsPaths):
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
    ) -> None:
        super().__init__()
        if samples < 1:
            raise ValueError(f"samples={samples}; at least one path is needed.")
        if isinstance(likelihood, Likelihood):
            likelihood = [likelihood]
        self.likelihood = likelihood if isinstance(likelihood, PerOutput) else PerOutput(likelihood)
        self.kernels = tuple(component.kernel for component in components)
        self._reads = tuple(tuple(component)[1:] for component in components)
        self.functions = tuple(dict(weights) for weights in functions)
        self._input_dim = input_dim
        self._check_structure()
        self.schema = Schema.of(
            self.likelihood.output_names if names is None else names,
            len(self.likelihood.likelihoods),
        )
        self.location, self.scale = (
            np.array(np.broadcast_to(np.asarray(a, float), (len(self.names),)))
            for a in (location, scale)
        )
        self.shared = None if shared is None else gpflow.Parameter(_points(shared))
        self.inducing = tuple(
            Z if Z is None or isinstance(Z, gpflow.Parameter) else gpflow.Parameter(_points(Z))
            for Z in inducing
        )
        self._check_inducing()
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
            "inducing": f"{self.num_inducing} for each GP"
            + (f", {tied} of them tied to the GPs before" if tied else ""),
            "posterior": f"Full{', whitened' if self.posterior.whiten else ''}; {self.samples}"
            " paths a row in training",
            "likelihood": ", ".join(kinds),
            "units": "those of the data; targets of Gaussian outputs are standardised inside",
        }

    # --- the bound

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
                for _, t in self._expectations(batch, self._run(layers, batch.X, noise))
            ]
            return tf.add_n(terms) - self.kl(layers)

    def data_terms(
        self, data: Batch | MultiOutputData, noise: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The expected log-likelihood of each output, scaled to all its rows, `[D]`."""
        batch = self._batch(data)
        terms: dict[int, tf.Tensor] = {}
        paths = self._run(self.layers(), batch.X, noise)
        for outputs, weighted in self._expectations(batch, paths):
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
                here = tf.cast(own.weight > 0, log_p.dtype) * self._log_prob(d, own, batch.X, paths)
                log_p += _at_rows(here, own.rows, tf.shape(batch.X)[0])
                weight = tf.maximum(weight, _at_rows(own.weight, own.rows, tf.shape(batch.X)[0]))
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
            kernel, columns = KernelStack(component.kernel), _columns(component, X, draws)
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
                draws.append(
                    drawn
                    if given is None or number not in given
                    else given[number] + tf.zeros_like(drawn)
                )
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
            columns = _columns(component, X, draws)
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
            raise ValueError(
                f"output {self.names[d]!r} is not a single GP of this chain: its values cannot be"
                " given."
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

    def _expectations(
        self, batch: Batch, paths: Paths
    ) -> Iterator[tuple[tuple[int, ...], tf.Tensor]]:
        """For each group of outputs with like likelihoods: the outputs, and the weighted
        expectations of their rows.

        Rows are those of each path in turn, of each output in turn.
        """
        S = paths.number
        for group in groups(self.likelihood.likelihoods):
            own = [(d, batch.outputs[d]) for d in group.outputs]
            parts = [paths.of(self.likelihood.functions(d), o.rows) for d, o in own]
            f = Paths(
                *(tf.concat([getattr(part, name) for part in parts], 0) for name in Paths._fields)
            )
            Y = tf.concat([tf.tile(self._standardised(d, o.Y), [S, 1]) for d, o in own], 0)
            weight = tf.concat([tf.tile(o.weight / float(S), [S]) for _, o in own], 0)
            units = tf.concat(
                [tf.fill([S * tf.shape(o.weight)[0]], self._log_scale(d, Y.dtype)) for d, o in own],
                0,
            )
            X = tf.zeros([tf.shape(Y)[0], 0], Y.dtype)
            if group.reads_inputs:
                X = tf.concat([tf.tile(_rows(batch.X, o.rows), [S, 1]) for _, o in own], 0)
            likelihood = group.likelihood([S * tf.shape(o.weight)[0] for _, o in own])
            if reads_jointly(likelihood):
                expected = likelihood.log_prob(X, f.draws, Y)
            else:
                expected = likelihood.variational_expectations(X, f.mean, f.var, Y)
            yield group.outputs, weight * (expected - units)

    def _log_prob(self, d: int, own: OutputBatch, X: tf.Tensor, paths: Paths) -> tf.Tensor:
        """`log p(y | h)` of an output at the drawn values, `[S, B_d]`."""
        S = paths.number
        f = paths.of(self.likelihood.functions(d), own.rows)
        Y = tf.tile(self._standardised(d, own.Y), [S, 1])
        inputs = tf.tile(_rows(X, own.rows), [S, 1])
        log_p = self.likelihood.likelihoods[d].log_prob(inputs, f.draws, Y) - self._log_scale(
            d, Y.dtype
        )
        return tf.reshape(log_p, [S, -1])

    def _standardised(self, d: int, Y: tf.Tensor) -> tf.Tensor:
        if self.location[d] == 0 and self.scale[d] == 1:
            return Y
        return (Y - tf.constant(self.location[d], Y.dtype)) / tf.constant(self.scale[d], Y.dtype)

    def _log_scale(self, d: int, dtype: tf.DType) -> tf.Tensor:
        return tf.constant(np.log(self.scale[d]), dtype)

    def _batch(self, data: Batch | MultiOutputData) -> Batch:
        if isinstance(data, MultiOutputData):
            self.check(data)
            return data.full()
        return data

    def start_at(self, means: Sequence[npt.ArrayLike], spread: float | None = None) -> None:
        """Set every `q(u_c)` to `N(means[c], spread² I)`, or without a spread to
        `N(means[c], K_c)`.

        `means [GPs][M]` are of the inducing values, whatever the parametrisation. Natural gradients
        move a posterior slowly that begins much narrower than it ends: its precision falls by a
        factor of 1 - gamma a step.
        """
        wanted = [tf.constant(np.asarray(m), gpflow.default_float()) for m in means]
        eye = tf.eye(self.num_inducing, dtype=gpflow.default_float())
        q_mu: list[tf.Tensor] = []
        q_sqrt: list[tf.Tensor] = []
        for component, own in zip(self.components, self.inducing, strict=True):
            Z = self._tied(component, wanted) if own is None else tf.convert_to_tensor(own)
            L = cholesky(KernelStack(component.kernel).K(Z), name="Kuu")[0]
            S = L if spread is None else spread * eye
            for m in wanted[len(q_mu) : len(q_mu) + component.copies]:
                both = tf.concat([m[:, None], S], 1)
                both = tf.linalg.triangular_solve(L, both) if self.posterior.whiten else both
                q_mu.append(both[:, 0])
                q_sqrt.append(both[:, 1:])
        self.posterior.q_mu.assign(tf.stack(q_mu, 1))
        self.posterior.q_sqrt.assign(tf.stack(q_sqrt))

    def regress(self, data: MultiOutputData) -> None:
        r"""Set the `q(u_c)` of Gaussian outputs to their optimum, one after the other, with means
        sent down the chain.

        With $\mathbf A = \mathbf L_c^{-1}\mathbf K_{uf}$ at what GP $c$ reads where its output was
        observed, it is $\mathbf S_v = (\mathbf I + \sigma_y^{-2}\mathbf A\mathbf A^\top)^{-1}$ and
        $\mathbf m_v = \sigma_y^{-2}\mathbf S_v\mathbf A\mathbf y$: the optimum of a sparse
        regression on $\mathbf y$. GPs that read other GPs alone (no inputs) are left as they are.
        """
        X = tf.constant(data.X, gpflow.default_float())
        outputs = self._regressed()
        q_mu, q_sqrt = tf.unstack(self.posterior.q_mu, axis=1), tf.unstack(self.posterior.q_sqrt)
        values: list[tf.Tensor] = []
        means: list[tf.Tensor] = []
        for component, own in zip(self.components, self.inducing, strict=True):
            kernel = KernelStack(component.kernel)
            Z = self._tied(component, means) if own is None else tf.convert_to_tensor(own)
            L = cholesky(kernel.K(Z), name="Kuu")[0]
            A = tf.linalg.triangular_solve(L, kernel.K(Z, _columns(component, X, values))[0])
            for number in range(len(values), len(values) + component.copies):
                if number in outputs:
                    m, S = self._regression(data.outputs[outputs[number]], outputs[number], A)
                    white = self.posterior.whiten
                    q_mu[number], q_sqrt[number] = (
                        (m, S) if white else (tf.linalg.matvec(L, m), tf.linalg.matmul(L, S))
                    )
                m = q_mu[number]
                m = m if self.posterior.whiten else tf.linalg.triangular_solve(L, m[:, None])[:, 0]
                values.append(tf.linalg.matvec(A, m, transpose_a=True)[None])
                means.append(tf.linalg.matvec(L, m))
        self.posterior.q_mu.assign(tf.stack(q_mu, 1))
        self.posterior.q_sqrt.assign(tf.stack(q_sqrt))

    def _regression(self, own: Output, output: int, A: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and factor of the best whitened posterior of a regression on the targets of an
        output.
        """
        y = tf.constant((own.Y[:, 0] - self.location[output]) / self.scale[output], A.dtype)
        noise = tf.convert_to_tensor(self.likelihood.likelihoods[output].variance)
        A = tf.gather(A, own.rows, axis=1)
        eye = tf.eye(self.num_inducing, dtype=A.dtype)
        precision = eye + tf.linalg.matmul(A, A, transpose_b=True) / noise
        upper = tf.reverse(cholesky(tf.reverse(precision, [0, 1]), 0.0, "a precision"), [0, 1])
        root = tf.transpose(tf.linalg.triangular_solve(upper, eye, lower=False))
        mean = (
            tf.linalg.matvec(root, tf.linalg.matvec(root, tf.linalg.matvec(A, y), transpose_a=True))
            / noise
        )
        return mean, root

    def _regressed(self) -> dict[int, int]:
        """The GPs that read the inputs, with copies of one only, and their outputs where those are
        Gaussian.
        """
        found: dict[int, int] = {}
        for d, likelihood in enumerate(self.likelihood.likelihoods):
            if isinstance(likelihood, stock.Gaussian):
                (function,) = self.likelihood.functions(d)
                found |= dict.fromkeys(self.functions[function], d)
        starts = np.cumsum([0, *(component.copies for component in self.components)])
        reading = {
            int(n)
            for n, component in zip(starts, self.components, strict=False)
            if component.inputs
        }
        return {number: d for number, d in sorted(found.items()) if number in reading}

    def check(self, data: MultiOutputData) -> None:
        """Raise unless the model can be trained on the data: outputs, inputs, targets that the
        likelihoods allow.
        """
        self.schema.check(data.schema)
        if data.input_dim != self.input_dim:
            raise ValueError(
                f"the data have {data.input_dim} input columns, the model reads {self.input_dim}."
            )
        self.likelihood.check(data)

    # --- the structure

    def _check_structure(self) -> None:
        before = 0
        for number, component in enumerate(self.components):
            if not component.inputs and not component.arguments:
                raise ValueError(f"component {number} reads neither inputs nor other GPs.")
            unknown = [
                c for argument in component.arguments for c in argument if not 0 <= c < before
            ]
            if unknown:
                raise ValueError(
                    f"component {number} reads GP {unknown[0]}; before it there are {before},"
                    " from 0."
                )
            before += component.copies
        if len(self.functions) != self.likelihood.num_functions:
            raise ValueError(
                f"the likelihoods read {self.likelihood.num_functions} latent functions, "
                f"the chain makes {len(self.functions)}."
            )
        unknown = [c for weights in self.functions for c in weights if not 0 <= c < before]
        if unknown or not all(self.functions):
            raise ValueError(
                f"functions are sums of GPs 0 to {before - 1}, at least one each; got"
                f" {self.functions}."
            )
        for likelihood in self.likelihood.likelihoods:
            if isinstance(likelihood, ReadsFunctions) and not isinstance(likelihood, Softmax):
                raise TypeError(
                    f"a chain cannot use the likelihood {type(likelihood).__name__}, which asks for"
                    " the covariance of its functions; use Softmax(classes) for labels."
                )

    def _check_inducing(self) -> None:
        if len(self.inducing) != len(self.components):
            raise ValueError(
                f"{len(self.inducing)} sets of inducing inputs for {len(self.components)}"
                " components."
            )
        if self.shared is None and any(Z is None for Z in self.inducing):
            raise ValueError("tied inducing inputs (None) need the shared ones: give shared=Z.")
        sizes = {int(Z.shape[0]) for Z in (self.shared, *self.inducing) if Z is not None}
        if len(sizes) != 1:
            raise ValueError(
                f"sets of {sorted(sizes)} inducing inputs; all components need as many."
            )
        for number, (Z, component) in enumerate(zip(self.inducing, self.components, strict=True)):
            expected = component.inputs * self._input_dim + len(component.arguments)
            if Z is not None and Z.shape[1] != expected:
                raise ValueError(
                    f"inducing inputs of component {number} have {Z.shape[1]} columns, it reads"
                    f" {expected}."
                )


def reads_jointly(likelihood: Likelihood) -> bool:
    """Whether a likelihood is evaluated at drawn functions: it reads several, and its density is
    smooth in them.
    """
    if isinstance(likelihood, Softmax):
        return likelihood.joint
    return (likelihood.latent_dim or 1) > 1 and not isinstance(likelihood, stock.MultiClass)


def _columns(component: Component, X: tf.Tensor, draws: Sequence[tf.Tensor]) -> tf.Tensor:
    """What the component reads, `[S N, columns]`; `[N, P]` if that is the inputs alone."""
    if not component.arguments:
        return X
    read = [tf.add_n([draws[c] for c in argument]) for argument in component.arguments]
    columns = tf.stack(read, -1)
    if component.inputs:
        tiled = tf.broadcast_to(X, tf.concat([tf.shape(columns)[:2], tf.shape(X)[1:]], 0))
        columns = tf.concat([tiled, columns], -1)
    width = len(component.arguments) + component.inputs * int(X.shape[1])
    return tf.reshape(columns, [-1, width])


def _rows(values: tf.Tensor, rows: tf.Tensor | None) -> tf.Tensor:
    return values if rows is None else tf.gather(values, rows)


def _at_rows(values: tf.Tensor, rows: tf.Tensor | None, size: tf.Tensor) -> tf.Tensor:
    """`[..., B_d]` values at positions `rows` among `size`, zero elsewhere."""
    if rows is None:
        return values
    moved = tf.math.unsorted_segment_sum(tf.transpose(values), rows, size)
    return tf.transpose(moved)


def _points(Z: npt.ArrayLike) -> Array:
    points = np.asarray(Z, dtype=float)
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or 0 in points.shape or not np.isfinite(points).all():
        raise ValueError(
            f"inducing inputs have shape {points.shape}; expected [M, columns], finite."
        )
    return points
