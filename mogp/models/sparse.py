"""`SparseMOGP`: the one model that joins a prior, inducing variables, a posterior and
likelihoods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from gpflow.likelihoods import Likelihood

from mogp.compiling import repeated
from mogp.data import Array, MultiOutputData, Names, Scaling, Schema
from mogp.data.batches import Batch, OutputBatch
from mogp.data.drawn import Together, each_row, together
from mogp.data.labels import LabelData
from mogp.inducing import InducingPoints
from mogp.kernels import parameters_read_once
from mogp.likelihoods import PerOutput, ReadsFunctions
from mogp.likelihoods.groups import Group, groups
from mogp.models.answers import LikelihoodPredictor, ToldPredictor, is_gaussian
from mogp.models.base import Given, Replica
from mogp.models.class_recipe import TrainsClasses
from mogp.models.gaussian_recipe import TrainsGaussians
from mogp.models.row_shapes import dense, outputs_first, targets
from mogp.posteriors import Factors, Full, Posterior
from mogp.priors import Conditional, Marginals, MixingPrior, Prior, View


class SparseMOGP(LikelihoodPredictor, TrainsGaussians, TrainsClasses):
    r"""A sparse variational multi-output GP.

    Latent GPs $u$ with inducing variables $\mathbf u$ make latent parameter functions
    $f_1 \dots f_J$ (the prior); the likelihood of output $d$ reads the $J_d$ functions it owns. The
    bound is

    $$\mathcal L = \sum_d \frac{N_d}{B_d} \sum_{n \in \mathcal B_d} \mathbb E_{\prod_j
      q(f_j(x_n))}\log p(y_{dn} \mid f) - \beta \sum_l \mathrm{KL}[q(\mathbf u_l) \| p(\mathbf
        u_l)],\qquad \beta = 1.$$

    Likelihoods that read the functions themselves (`Softmax`, `AugmentReduce`) have the expectation
    under the joint $q$ of a row in place of the product of marginals.

    Args:
        prior: how latent GPs make functions: `Independent`, `LMC`, `ICM`, `CPM`.
        inducing: the inducing variables: `kmeans_points(data, M, sets=len(kernels))` and the like.
        likelihood: one GPflow likelihood (a single output), a sequence or a dict by output name, or
            a `PerOutput`.
        posterior: the variational family; `Full()` (whitened) if None.
        names: of the outputs, or `data.schema`, which has the names of input columns and classes
            too; if None those of the likelihood's dict, or else of the first data it is fitted on.
        kl_weight: $\beta$; anything but 1 gives up the bound for a tempered one.
        scaling: the units in which prior, inducing variables and likelihoods are given, as
            `Scaling.of(data)`; those of the data if None.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> x = np.linspace(0, 1, 8)
    >>> data = MultiOutputData.from_arrays(x, np.column_stack([np.sin(x), np.cos(x)]))

    >>> from mogp.inducing import kmeans_points
    >>> from mogp.kernels import unit_kernels
    >>> from mogp.likelihoods import Gaussian
    >>> from mogp.priors import LMC

    >>> model = SparseMOGP(
    ...     prior=LMC(unit_kernels(2, input_dim=1), functions=2),
    ...     inducing=kmeans_points(data, 4, sets=2),
    ...     likelihood=[Gaussian(0.1), Gaussian(0.1)],
    ...     names=data.schema,
    ... )
    >>> model.predict_y([0.5, 0.7]).mean.shape.as_list()
    [2, 2]
    >>> print(model)
    SparseMOGP
      outputs     2: 'output 0', 'output 1'
      inputs      1: 'x'
      prior       LMC: 2 latent GPs (SquaredExponential) make 2 functions
      inducing    InducingPoints: 4 in each of 2 sets
      posterior   Full, whitened
      likelihood  Gaussian
      units       those of the data
    """

    compiles = True
    reads_sparse = True
    usual_batches = True

    def __init__(
        self,
        prior: Prior,
        inducing: InducingPoints,
        likelihood: Likelihood | Sequence[Likelihood] | Mapping[str, Likelihood] | PerOutput,
        posterior: Posterior | None = None,
        names: Names = None,
        kl_weight: float = 1.0,
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__()
        self.scaling = scaling
        if not kl_weight >= 0:
            raise ValueError(
                f"kl_weight={kl_weight}; it must not be negative, and is 1 for a bound on the"
                " evidence."
            )
        self.kl_weight = kl_weight
        if isinstance(likelihood, Likelihood):
            likelihood = [likelihood]
        self.likelihood = likelihood if isinstance(likelihood, PerOutput) else PerOutput(likelihood)
        self.prior = prior
        self.inducing = inducing
        self.posterior = Full() if posterior is None else posterior
        if self.posterior.correlated and not isinstance(prior, MixingPrior):
            raise self.unsupported(
                f"takes a {type(self.posterior).__name__} posterior with priors that mix latent"
                f" GPs (LMC, ICM, Independent), not with {type(prior).__name__}",
                "Use Full().",
            )
        needed = self.likelihood.num_functions
        if needed != prior.num_functions:
            pairs = zip(self.likelihood.likelihoods, self.likelihood.latent_dims, strict=True)
            kinds = ", ".join(f"{type(k).__name__}: {j}" for k, j in pairs)
            raise ValueError(
                f"the likelihoods read {needed} latent functions ({kinds}), "
                f"the prior makes {prior.num_functions}; give the prior functions={needed}."
            )
        blocks, copies = prior.blocks(inducing)
        if inducing.num_sets not in (None, blocks):
            raise ValueError(
                f"{inducing.num_sets} sets of inducing inputs for {blocks} distinct kernels; "
                f"use sets={blocks}, or one shared set."
            )
        self.posterior.build(blocks, copies, inducing.num_inducing)
        self.schema = Schema.of(
            self.likelihood.output_names if names is None else names,
            len(self.likelihood.likelihoods),
        )
        storing = [self.likelihood.likelihoods[d] for d in self.local]
        if len({id(one) for one in storing}) < len(storing):
            raise ValueError(
                "one likelihood that stores theta for each row serves several outputs; give each"
                " one of its own."
            )

    @property
    def input_dim(self) -> int:
        """Columns of the inputs."""
        return self.inducing.input_dim

    def choices(self) -> dict[str, str]:
        """Prior, inducing variables, posterior and likelihoods, in words."""
        prior, sets = self.prior, self.inducing.num_sets
        kernels = ", ".join(dict.fromkeys(type(k).__name__ for k in prior.kernels.kernels))
        kinds = dict.fromkeys(type(one).__name__ for one in self.likelihood.likelihoods)
        whiten = ", whitened" if getattr(self.posterior, "whiten", False) else ""
        return {
            "prior": f"{type(prior).__name__}: {prior.num_latents} latent GPs ({kernels}) make"
            f" {prior.num_functions} functions",
            "inducing": f"{type(self.inducing).__name__}: {self.inducing.num_inducing}"
            + (f" in each of {sets} sets" if sets else " shared by all latent GPs"),
            "posterior": f"{type(self.posterior).__name__}{whiten}",
            "likelihood": ", ".join(kinds),
        }

    # --- the bound

    def elbo(self, data: Batch | MultiOutputData | LabelData) -> tf.Tensor:
        """The evidence lower bound, estimated on a batch (exact on all the data)."""
        with parameters_read_once():
            factors = self.factors()
            batch = self._batch(data)
            terms = [tf.reduce_sum(weighted) for _, weighted in self._expectations(batch, factors)]
            return tf.add_n(terms) - self.kl_weight * self.kl(factors) - self.jacobian(data)

    def data_terms(self, data: Batch | MultiOutputData | LabelData) -> tf.Tensor:
        """The expected log-likelihood of each output, scaled to all its rows, `[D]`."""
        batch = self._batch(data)
        terms = tf.zeros(len(self.names), batch.X.dtype)
        for outputs, weighted in self._expectations(batch, self.factors()):
            own = together(batch.outputs, outputs).sums(weighted)
            terms = tf.tensor_scatter_nd_update(terms, np.array(outputs)[:, None], own)
        return terms

    def _expectations(
        self, batch: Batch, factors: Factors
    ) -> Iterator[tuple[tuple[int, ...], tf.Tensor]]:
        """For each group of outputs with like likelihoods: the outputs, and the weighted
        expectations of their rows.
        """
        functions = self.condition(batch.X, factors)
        for group in groups(self.likelihood.likelihoods):
            rows = together(batch.outputs, group.outputs)
            own = rows.own
            if group.reads_functions:
                view = self._view(functions, group.outputs, rows)
                expected = group.likelihood(rows.sizes).expectations(view, targets(own))
            else:
                f = self._marginals(functions, group.outputs, rows)
                X = self._inputs_of(group, batch, own, f)
                likelihood = group.likelihood(rows.sizes)
                expected = likelihood.variational_expectations(X, f.mean, f.var, own.Y)
            yield group.outputs, own.weight * expected

    @staticmethod
    def _inputs_of(group: Group, batch: Batch, own: OutputBatch, f: Marginals) -> tf.Tensor:
        """Inputs `[rows of all outputs, P]` for a likelihood that may read them, without columns
        for others.
        """
        if not group.reads_inputs:
            return tf.zeros([tf.shape(f.mean)[0], 0], f.mean.dtype)
        X = dense(batch.X)
        if own.rows is not None:
            return tf.gather(X, own.rows)
        return tf.tile(X, [len(group.outputs), 1])

    def _marginals(
        self, functions: Conditional, outputs: Sequence[int], rows: Together
    ) -> Marginals:
        """Marginals `[rows of all outputs, J_d]` of outputs with as many functions each."""
        if rows.own.rows is None:
            f = functions.marginals(self._functions(outputs))
            return Marginals(*(outputs_first(a, len(outputs)) for a in f))
        first = self.likelihood.functions(outputs[0])
        if len(outputs) == 1:
            return functions.marginals(first, rows.own.rows)
        starts = [self.likelihood.functions(d).start for d in outputs]
        own = each_row(tf.constant(starts, tf.int64), rows.sizes)[:, None] + np.arange(len(first))
        return functions.marginals(own, rows.own.rows)

    def _view(self, functions: Conditional, outputs: Sequence[int], rows: Together) -> View:
        """The functions of each output at its rows, the outputs one after the other."""
        ranges = [self.likelihood.functions(d) for d in outputs]
        if len(outputs) == 1:
            return View(functions, ranges[0].start, len(ranges[0]), rows.own.rows)
        where = rows.own.rows
        if where is None:
            where = tf.tile(tf.range(tf.cast(rows.sizes[0], tf.int64)), [len(outputs)])
        first = each_row(tf.constant([r.start for r in ranges], tf.int64), rows.sizes)
        return View(functions, first, max(map(len, ranges)), where)

    def before_step(self) -> Callable[[Batch], None] | None:
        """`update_local`, where a likelihood stores something for each row."""
        return self.update_local if self.local else None

    def update_local(self, batch: Batch) -> None:
        """Bring what likelihoods store for each row up to date with the model, for the rows of a
        batch.

        `fit` calls it before every step. Most likelihoods store nothing, and then nothing is
        computed.
        """
        if not self.local:
            return
        functions = self.condition(batch.X)
        for d in self.local:
            rows = together(batch.outputs, [d])
            self.likelihood.likelihoods[d].update_local(
                self._view(functions, [d], rows), targets(rows.own)
            )

    @property
    def local(self) -> tuple[int, ...]:
        """Outputs whose likelihoods store something for each row."""
        return tuple(
            d
            for d, one in enumerate(self.likelihood.likelihoods)
            if isinstance(one, ReadsFunctions) and one.stored_rows is not None
        )

    def kl(self, factors: Factors | None = None) -> tf.Tensor:
        """`KL[q(u) || p(u)]`, summed over the latent GPs."""
        return tf.reduce_sum(self.posterior.kl(self.factors() if factors is None else factors))

    def factors(self) -> Factors:
        """The covariance of the inducing variables, factorised."""
        return self.posterior.factorise(self.inducing.Kuu(self.prior.kernels))

    def condition(
        self, X: tf.Tensor, factors: Factors | None = None, full_cov: bool = False
    ) -> Conditional:
        """The posterior of all functions at `X [N, P]`."""
        factors = self.factors() if factors is None else factors
        return self.prior.condition(X, self.inducing, self.posterior, factors, full_cov)

    def _batch(self, data: Batch | MultiOutputData | LabelData) -> Batch:
        if isinstance(data, Batch):
            return data
        self.check(data)
        full: Batch = self.scaled(data).full()
        return full

    def check(self, data: MultiOutputData | LabelData) -> None:
        """Raise unless the model can be trained on the data: outputs, inputs, targets that the
        likelihoods allow.
        """
        self.check_names(data)
        self.likelihood.check(data)
        for d in self.local:
            rows = self.likelihood.likelihoods[d].stored_rows
            if data.X.shape[0] > rows:
                raise ValueError(
                    f"the likelihood of {self.names[d]!r} stores theta for {rows} rows, the data"
                    f" have {data.X.shape[0]} rows of inputs; give it rows=len(data.X)."
                )

    # --- prediction

    def predict_f(
        self,
        Xnew: Any,
        output: int | str | None = None,
        *,
        replica: Replica = None,
        given: Given = None,
        full_cov: bool = False,
        full_output_cov: bool = False,
    ) -> Marginals:
        """Mean and variance of the latent functions at `Xnew [N, P]`: see `MOGP.predict_f`.

        Args:
            Xnew: where.
            output: only the functions of this output.
            replica: for models with replicas.
            given: see `MOGP.predict_f`.
            full_cov: covariances between rows, `[J, N, N]`.
            full_output_cov: covariances between functions, `[N, J, J]`.
        """
        if not full_output_cov:
            return super().predict_f(Xnew, output, replica=replica, given=given, full_cov=full_cov)
        if full_cov:
            raise ValueError("ask for full_cov or full_output_cov, not both.")
        X = self.at(Xnew, replica)
        told: Any = self._told(X, given)
        outputs = range(len(self.names)) if output is None else [self.index(output)]
        f = told.condition(X).marginals(self._functions(outputs), full_output_cov=True)
        m, s = self._of_functions(outputs)
        return Marginals(f.mean * s + m, f.var * np.outer(s, s))

    def _of_functions(self, outputs: Sequence[int]) -> tuple[Array, Array]:
        m, s = self._affine()
        return self.likelihood.function_units(outputs, m, s)

    def _conditioned(self, X: tf.Tensor, known: Mapping[int, Array]) -> ToldPredictor:
        for d in known:
            if not is_gaussian(self.likelihood.likelihoods[d]):
                raise self.unsupported(
                    f"cannot be conditioned on {self.names[d]!r}: its likelihood"
                    f" ({type(self.likelihood.likelihoods[d]).__name__}) is not Gaussian, and the"
                    " posterior given its targets has no closed form",
                    "Add them to the training data, or use a chain (GPAR, gplar).",
                )
        return ToldPredictor(self, dense(X), known)

    def global_coregionalisation(self) -> Array:
        r"""How strongly outputs are coupled, `[D, D]`: mean $|B_g|$ over latents and over pairs of
        functions.

        $\frac1{J_d J_{d'}}\sum_{j \in d, j' \in d'} \frac1G\sum_g |B_{g,jj'}|$, Ma's "global
        absolute coregionalisation matrix" of one fit. Scales of kernels are not in it: compare
        models whose kernels have unit variance.
        """
        B = self.prior.coregionalisation()
        share = np.zeros((len(self.names), self.prior.num_functions))
        for d in range(len(self.names)):
            own = self.likelihood.functions(d)
            share[d, own.start : own.stop] = 1 / len(own)
        coupling: Array = share @ np.mean([np.abs(one) for one in B], axis=0) @ share.T
        return coupling

    def _log_densities(self, data: MultiOutputData | LabelData) -> dict[str, tf.Tensor]:
        self.likelihood.check(data)
        batch = data.full()
        each = repeated(lambda: self._densities(batch))
        return dict(zip(self.names, each, strict=True))

    def _densities(self, batch: Batch) -> list[tf.Tensor]:
        """Log predictive densities of each output, `[N_d]`."""
        conditional = self.noiseless(batch.X)
        found: dict[int, tf.Tensor] = {}
        for group in groups(self.likelihood.likelihoods):
            if group.reads_functions:
                for d in group.outputs:
                    rows = together(batch.outputs, [d])
                    view = self._view(conditional, [d], rows)
                    likelihood = self.likelihood.likelihoods[d]
                    found[d] = likelihood.log_density(view, targets(rows.own))
                continue
            rows = together(batch.outputs, group.outputs)
            f = self._marginals(conditional, group.outputs, rows)
            X, likelihood = self._inputs_of(group, batch, rows.own, f), group.likelihood(rows.sizes)
            densities = likelihood.predict_log_density(X, f.mean, f.var, rows.own.Y)
            found |= dict(zip(group.outputs, tf.split(densities, rows.sizes), strict=True))
        return [found[d] for d in range(len(self.names))]
