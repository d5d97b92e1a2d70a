# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   mogp:
#     finished: true
# ---

# %% [markdown]
# # Giraldo 4: Heterogeneous outputs
#
# A temperature, a yes or no, a share and a waiting time can be outputs of one model: each has a likelihood of its own, and
# the functions behind all of their parameters are mixtures of the same few latent GPs. This is HetMOGP
# {cite}`moreno2018het`. Chapter 4 of {cite}`giraldo2021thesis` is about training it: the *fully natural gradient* (FNG)
# takes natural gradients for the posterior **and** for an exploratory distribution over all hyper-parameters, and is
# compared with SGD, Adam and the hybrid of natural gradients and Adam (HYB).
#
# | | |
# |---|---|
# | **Shows** | Figures 4.1–4.5, J.1, J.2, Algorithm 1; claims giraldo-4-c1 to c10, giraldo-j-c1 |
# | **Adds** | Algorithm 1 checked step by step against formulas written out; constant predictions as a floor; how many iterations FNG saves; which part of FNG does what; what plain SGD does with a larger step; the objective above the evidence |
# | **Data** | toys T1–T3 of the thesis; LONDON, NAVAL, MOCAP7; the test file of SARCOS; a synthetic stand-in for HUMAN, which is private |
# | **Time** | `smoke` about a minute; `quick` about three minutes on one core; `long` the better part of an hour on two; `paper` has the twenty starts of the thesis |

# %% tags=["parameters"]
profile = "quick"
seed = 0

# %%
import itertools
import warnings
from functools import partial

import gpflow
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from matplotlib.ticker import EngFormatter, LogLocator, ScalarFormatter
from scipy import special, stats

from mogp import MultiOutputData, datasets, fit, likelihoods
from mogp.book import Chapter
from mogp.book.runs.heterogeneous import STUDIES, author_constants, author_start, optimiser
from mogp.experiments import sweep
from mogp.inducing import InducingPoints, kmeans_points
from mogp.kernels import unit_kernels
from mogp.models import SparseMOGP, ccgp, cgp, hetmogp_cpm, hetmogp_lmc
from mogp.optimizers import FNG, Adam, Natural, NaturalAdam, hyb
from mogp.plotting import COLOURS, bands
from mogp.posteriors import Full
from mogp.priors import LMC

chapter = Chapter("giraldo/4", profile=profile, seed=seed)

# %% [markdown]
# The settings are the whole difference between the profiles: `toy` and `real` are the sizes of the comparisons (steps, steps
# between two looks at the objective, steps at which the test NLPD is computed, rows it is computed on), `dims` the
# dimensions of Figure 4.2 with the number of starts for each.

# %%
ALL = ("HUMAN", "LONDON", "NAVAL", "SARCOS", "MOCAP7")
settings = chapter.settings(
    smoke=dict(
        toy=dict(steps=1, every=1, scored=(1,), rows=20, inducing=8), toy_points=200, toy_starts=1, dims={10: 1}, dims_steps=1,
        real=dict(steps=1, every=1, scored=(1,), rows=20, inducing=8), real_starts=1, averaged=2, averaged_on=("LONDON",),
        demo=1, sgd_steps=1, sgd_rates=(1e-15, 1e-7), workers=0, eager=True,
    ),
    quick=dict(
        toy=dict(steps=100, every=25, scored=(50, 100), rows=100), toy_points=2000, toy_starts=3, dims={1: 1, 10: 2}, dims_steps=50,
        real=dict(steps=100, every=25, scored=(50, 100), rows=100), real_starts=2, averaged=10, averaged_on=("LONDON", "SARCOS"),
        demo=200, sgd_steps=25, sgd_rates=tuple(10.0 ** np.arange(-15, -2, 2)), workers=0, eager=False,
    ),
    long=dict(
        toy=dict(steps=1000, every=50, scored=(200, 600, 1000), rows=200), toy_points=2000, toy_starts=20,
        dims={1: 3, 2: 3, 3: 3, 4: 3, 5: 3, 10: 3}, dims_steps=200,
        real=dict(steps=1000, every=50, scored=(250, 500, 1000), rows=300), real_starts=5, averaged=50,
        averaged_on=("LONDON", "NAVAL", "SARCOS"),
        demo=1500, sgd_steps=200, sgd_rates=tuple(10.0 ** np.arange(-15, -2, 2)), workers=2, eager=False,
    ),
    paper=dict(
        toy=dict(steps=1000, every=50, scored=(100, 200, 400, 600, 800, 1000), rows=500), toy_points=2000, toy_starts=20,
        dims={1: 20, 2: 20, 3: 20, 4: 20, 5: 20, 10: 20}, dims_steps=1000,
        real=dict(steps=2000, every=50, scored=(250, 500, 1000, 1500, 2000), rows=5000), real_starts=20, averaged=50,
        averaged_on=ALL, demo=3000, sgd_steps=1000, sgd_rates=tuple(10.0 ** np.arange(-15, -2, 2)), workers=None, eager=False,
    ),
)  # fmt: skip
tf.config.run_functions_eagerly(settings.eager)  # for a step or two a compiled graph does not pay

# %% [markdown]
# ## Outputs of different types (§4.1–4.2)
#
# Output $d$ has observations $y_{d,n}$ at inputs $\mathbf x_{d,n}$ of its own and a likelihood with $J_d$ parameters. Every
# parameter is a function, and all functions of all outputs are mixtures of $Q$ latent GPs (Eq. 4.1):
#
# $$
# y_{d,n}\sim p_d\big(y\mid f_{d,1}(\mathbf x_{d,n}),\dots,f_{d,J_d}(\mathbf x_{d,n})\big),\qquad
# f_{d,j}(\mathbf x)=\sum_{q=1}^Qw_{d,j,q}\,u_q(\mathbf x),\qquad u_q\sim\mathcal{GP}(0,k_q).
# $$
#
# With $M$ inducing values $\mathbf u_q=u_q(\mathbf Z_q)$ and $q(\mathbf u_q)=\mathcal N(\mathbf m_q,\mathbf V_q)$ the objective is a sum
# over outputs, each with mini-batches of its own size (Eq. 4.5):
#
# $$
# \mathcal L=\sum_{d}\frac{N_d}{B_d}\sum_{n\in\mathcal B_d}\mathbb E_{q(f_{d,1})\cdots q(f_{d,J_d})}\big[\log p_d(y_{d,n}\mid\mathbf
# f)\big]-\sum_q\mathrm{KL}\big[q(\mathbf u_q)\,\|\,p(\mathbf u_q)\big].
# $$
#
# In the library this is four choices. Here is a signal with changing noise, a share between 0 and 1 and a yes-or-no label, drawn
# from the toy T1 of the thesis; each was observed at other places, and the signal not at all in a gap.

# %%
line = chapter.load("giraldo-toy", variant="T1", N=600)
rng = np.random.default_rng(seed)
x = line.X[:, 0]
outside = np.flatnonzero((x < 0.4) | (x > 0.55))
places = {"signal": rng.choice(outside, 120, replace=False), "share": rng.choice(600, 80, replace=False)}
places["label"] = rng.choice(600, 400, replace=False)
mixed = MultiOutputData.from_list(
    [(line.X[rows], line.Y[rows, d]) for d, rows in enumerate(places.values())], names=list(places)
)
print(mixed)

model = SparseMOGP(
    prior=LMC(unit_kernels(3, input_dim=1, lengthscales=[0.5, 0.1, 0.1]), functions=5),  # 2 + 2 + 1 functions
    inducing=kmeans_points(mixed, 30, sets=3),
    posterior=Full(whiten=True),
    likelihood={
        "signal": likelihoods.HeteroscedasticGaussian(),
        "share": likelihoods.Beta(),
        "label": likelihoods.Bernoulli(),
    },
)
history = fit(
    model,
    mixed,
    steps=settings.demo,
    optimizer=NaturalAdam(gamma=0.1, learning_rate=0.02),
    batch_size={"signal": 60, "share": 40, "label": 200},
    progress=False,
)
pd.DataFrame(
    {
        "rows": mixed.sizes,
        "rows a step": [60, 40, 200],
        "functions": model.likelihood.latent_dims,
        "data term of the bound (nats)": model.data_terms(mixed).numpy().round(1),
    },
    index=pd.Index(mixed.names, name="output"),
)

# %% [markdown]
# Predictions are a mean, a standard deviation and quantiles for every output, in its own units:

# %%
model.predict([[0.2], [0.5]]).round(3)

# %% tags=["hide-input"]
fig, axes = plt.subplots(3, 1, figsize=(8.4, 8.2), sharex=True)
grid = np.linspace(0, 1, 150)
for ax, name, unit in zip(axes, places, ("signal (standardised)", "share", "probability of label 1"), strict=True):
    table = model.predict(grid[:, None], name)
    if name == "label":
        ax.plot(grid, table["mean"], color=COLOURS["blue"], label="predicted")
        ax.plot(x, special.expit(line.extras["f"][:, 4]), "--", color=COLOURS["grey"], label="true")
        ax.plot(mixed.inputs(name), mixed[name].Y, "k|", ms=6, label="observed")
    else:
        bands(
            ax,
            grid,
            table["mean"],
            lower=table["q0.025"],
            upper=table["q0.975"],
            label="mean",
            band_label="95 % interval",
        )
        ax.plot(mixed.inputs(name), mixed[name].Y, "k.", ms=4, label="observed")
    ax.set(ylabel=unit)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
axes[0].axvspan(0.4, 0.55, color="#F0F0F0", zorder=0)
axes[2].set(xlabel="x")
plt.show()

# %% [markdown]
# ## Four optimisers (§4.3–4.5)
#
# What is there to move? The posterior $\{\mathbf m_q,\mathbf V_q\}$, and everything else, $\boldsymbol\theta$: inducing inputs,
# lengthscales (on an unconstrained scale) and mixing weights.
#
# | | $q(\mathbf u)$ | $\boldsymbol\theta$ | in the library |
# |---|---|---|---|
# | SGD | gradient in $\mathbf m$ and the Cholesky factor of $\mathbf V$, step $10^{-15}$ | gradient, same step | `Keras(SGD(1e-15))` |
# | Adam | Adam on the same, 0.005 | Adam, 0.005 | `Adam(0.005)` |
# | HYB {cite}`salimbeni2018natural` | natural gradient, $\beta=0.005$ | Adam, 0.005 | `hyb(0.005, 0.005)` |
# | FNG | natural gradient with momentum, $\beta=0.005$, $\upsilon=0.9$ | natural gradient of an exploratory $q(\boldsymbol\theta)$ | `FNG()` |
#
# The thesis does not print step sizes; these are those of the author's released code, where the gradient by $\mathbf m$ is
# also clipped to $[-5,5]$ in the last two.
#
# **A natural gradient for $q(\mathbf u)$.** Mirror descent in the mean parameters of a Gaussian, with the KL divergence as
# distance, gives (chapter 2)
#
# $$
# \mathbf V_{t+1}^{-1}=\mathbf V_t^{-1}+2\beta\,\nabla_{\mathbf V}\tilde{\mathcal L},\qquad
# \mathbf m_{t+1}=\mathbf m_t-\beta\,\mathbf V_{t+1}\nabla_{\mathbf m}\tilde{\mathcal L}+\upsilon\,\mathbf V_{t+1}\mathbf V_t^{-1}(\mathbf m_t-\mathbf
# m_{t-1}),
# $$
#
# where $\tilde{\mathcal L}=-\mathcal L$. Both gradients come from $\mathbf A_q=\mathbf K_{fu}\mathbf K_{uu}^{-1}$ and the
# derivatives of the expected log-likelihood by the mean and variance of each $f_{d,j}(\mathbf x_n)$ (Appendix F).
#
# **A natural gradient for the rest.** Variational optimisation puts a Gaussian $q(\boldsymbol\theta)=\mathcal
# N(\boldsymbol\mu,\mathrm{diag}\,\boldsymbol\sigma^2)$ over the hyper-parameters and lowers
#
# $$
# \tilde{\mathcal F}=\mathbb E_{q(\boldsymbol\theta)}\big[\tilde{\mathcal L}\big]+\mathrm{KL}\big[q(\boldsymbol\theta)\,\|\,\mathcal N(\mathbf
# 0,\lambda_1^{-1}\mathbf I)\big].
# $$
#
# The same mirror descent with $\nabla^2\approx\nabla\circ\nabla$ (Gauss–Newton) and one draw of $\boldsymbol\theta$ a step moves
# $\mathbf p=\boldsymbol\sigma^{-2}-\lambda_1$ and $\boldsymbol\mu$ as in lines 5 and 6 below: steps are long where squared gradients have been small,
# as in Adam, and the same number says how far to look around.


# %%
def algorithm():
    """Algorithm 1 of the thesis (Appendix G), line by line, with the names of the library."""
    return pd.DataFrame(
        [
            ("start", "μ, p₀ ≥ 0, σ² = 1/(p + λ₁); m, V for each latent GP", "FNG(start=p₀, penalty=λ₁).start(model)"),
            ("1", "draw ε ~ N(0, I), θ = μ + σ∘ε", "Exploratory.evaluate, samples=1"),
            ("2", "draw a mini-batch of B_d rows of every output, weights N_d/B_d", "data.batches(size, seed)(step)"),
            ("3", "θ → inducing inputs, lengthscales (softplus), weights", "gpflow.Parameter transforms"),
            ("4", "evaluate the NELBO once; g = ∂/∂θ, g_m = ∂/∂m, G_V = ∂/∂V", "model.training_loss(batch), reverse mode"),
            ("5", "p ← (1 − α) p + α g∘g", "VAN.apply: precision"),
            (
                "6",
                "μ ← μ − α (g + λ₁μ)/r(p′) + γ r(p)/r(p′) (μ − μ₋₁), r(p) = √p + λ₁",
                "VAN.apply: mean; rule='root' (rule='literal': r(p) = p + λ₁)",
            ),
            (
                "7",
                "V⁻¹ ← V⁻¹ + 2β G_V; m ← m − βV′g_m + υV′V⁻¹(m − m₋₁); β halved where V⁻¹ would be indefinite",
                "natural_step(m, L, …)",
            ),
            ("8", "σ² = 1/(p + λ₁); between steps the model holds θ = μ", "Exploratory.deviation, .mean"),
            ("as run", "lines 5, 6 as in Vadam: moments with rates 0.9, 0.999, bias corrected", "rule='vadam' (the default)"),
        ],
        columns=["line", "what happens", "in the library"],
    )  # fmt: skip


chapter.table("giraldo-alg-1", algorithm())

# %% [markdown]
# To see that this is what the library does, here are three steps of it written out in NumPy, with inverses in place of
# factorisations, and the gradients of $\mathbf m$ and $\mathbf V$ from the formulas of Appendix F:
#
# $$
# \nabla_{\mathbf m_q}\tilde{\mathcal L}=\sum_{d,j}w_{d,j,q}\mathbf A_q^\top\mathbf g_{d,j}+\mathbf K_q^{-1}\mathbf m_q,\qquad
# \nabla_{\mathbf V_q}\tilde{\mathcal L}=\sum_{d,j}w_{d,j,q}^2\mathbf A_q^\top\mathrm{diag}(\mathbf h_{d,j})\mathbf A_q-\tfrac12\big[\mathbf
# V_q^{-1}-\mathbf K_q^{-1}\big],
# $$
#
# $\mathbf g$ and $\mathbf h$ being minus the derivatives of $\mathbb E\log p$ by mean and variance.

# %%
pair = MultiOutputData.from_arrays(line.X[::20], line.Y[::20][:, [0, 2]], names=["y", "label"])
types = [likelihoods.HeteroscedasticGaussian(), likelihoods.Bernoulli()]
small = hetmogp_lmc(
    pair,
    types,
    latents=2,
    inducing=6,
    whiten=False,
    seed=seed,
    scaling=None,
    start="plain",
)
alpha, beta, momentum, lam, p0 = 0.05, 0.1, 0.9, 1.0, 1000.0


def gradients_of_q(model):
    """∇_m [Q, M] and ∇_V [Q, M, M] of the NELBO by Appendix F, all rows in the batch."""
    K = model.inducing.Kuu(model.prior.kernels).numpy() + gpflow.default_jitter() * np.eye(6)
    K_uf = model.inducing.Kuf(model.prior.kernels, tf.constant(pair.X)).numpy()
    W, m, L = model.prior.W.numpy(), model.posterior.q_mu.numpy().T, model.posterior.q_sqrt.numpy()
    A, P = np.linalg.solve(K, K_uf).transpose(0, 2, 1), np.linalg.inv(K)
    V = L @ L.transpose(0, 2, 1)
    mean_u, var_u = np.einsum("qnm,qm->nq", A, m), 1 + np.einsum("qnm,qml,qnl->nq", A, V - K, A)
    by_m, by_V = np.einsum("qml,ql->qm", P, m), -0.5 * (np.linalg.inv(V) - P)
    for likelihood, functions, own in zip(types, ([0, 1], [2]), pair, strict=True):
        w = W[functions]
        mean, var = tf.Variable(mean_u @ w.T), tf.Variable(var_u @ (w**2).T)
        with tf.GradientTape() as tape:
            nll = -tf.reduce_sum(likelihood.variational_expectations(pair.X, mean, var, own.Y))
        g, h = (part.numpy() for part in tape.gradient(nll, [mean, var]))
        by_m += np.einsum("jq,qnm,nj->qm", w, A, g)
        by_V += np.einsum("jq,qnm,nj,qnl->qml", w**2, A, h, A)
    return by_m, by_V


def flat(model):
    """The hyper-parameters θ as the optimiser sees them: variables other than q(u), one after the other."""
    own = (model.posterior.q_mu.unconstrained_variable, model.posterior.q_sqrt.unconstrained_variable)
    return [v for v in model.trainable_variables if not any(v is one for one in own)]


def put(variables, theta):
    for v, part in zip(
        variables, np.split(theta, np.cumsum([v.shape.num_elements() for v in variables])[:-1]), strict=True
    ):
        v.assign(part.reshape(v.shape))


def by_hand(model, steps):
    theta = flat(model)
    mu = mu_before = np.concatenate([v.numpy().ravel() for v in theta])
    m = m_before = model.posterior.q_mu.numpy().T
    V = model.posterior.q_sqrt.numpy() @ model.posterior.q_sqrt.numpy().transpose(0, 2, 1)
    p = np.full(len(mu), p0)

    def r(p):
        return np.sqrt(p) + lam

    for step in range(steps):
        epsilon = tf.random.stateless_normal([len(mu)], [seed, step], dtype=tf.float64).numpy()  # line 1
        put(theta, mu + epsilon / np.sqrt(p + lam))
        with tf.GradientTape() as tape:  # line 4
            loss = model.training_loss(pair)
        g = np.concatenate([part.numpy().ravel() for part in tape.gradient(loss, theta)])
        by_m, by_V = gradients_of_q(model)
        p_new = (1 - alpha) * p + alpha * g**2  # line 5
        mu_new = mu - alpha * (g + lam * mu) / r(p_new) + momentum * r(p) / r(p_new) * (mu - mu_before)  # line 6
        V_new = np.linalg.inv(np.linalg.inv(V) + 2 * beta * by_V)  # line 7
        push = np.linalg.solve(V, (m - m_before)[..., None])
        m_new = m + (V_new @ (momentum * push - beta * by_m[..., None]))[..., 0]
        mu, mu_before, p, V, m, m_before = mu_new, mu, p_new, V_new, m_new, m  # line 8
        put(theta, mu)
        model.posterior.q_mu.assign(m.T)
        model.posterior.q_sqrt.assign(np.linalg.cholesky(V))
    return mu, 1 / np.sqrt(p + lam), m, V


start = gpflow.utilities.read_values(small)
expected = by_hand(small, 3)
gpflow.utilities.multiple_assign(small, start)
library = FNG("root", learning_rate=alpha, gamma=beta, momentum=momentum, penalty=lam, start=p0, clip=None, seed=seed)
library.start(small)
for _ in range(3):
    library.step(small, lambda: small.training_loss(pair))
L = small.posterior.q_sqrt.numpy()
found = (
    library.rest.mean.numpy(),
    library.rest.deviation.numpy(),
    small.posterior.q_mu.numpy().T,
    L @ L.transpose(0, 2, 1),
)
gaps = {
    name: np.abs(a - b).max()
    for name, a, b in zip(("μ", "σ", "m", "V"), found, expected, strict=True)
}  # fmt: skip
assert max(gaps.values()) < 1e-10, gaps
pd.DataFrame({"largest difference after three steps": gaps}).map("{:.0e}".format)

# %% [markdown]
# ## How the runs are made
#
# All methods start from the same values: those of the released code, random lengthscales and weights, inducing inputs on a
# permuted grid, $\mathbf V=\mathbf I$. A quarter of the rows is held out. The objective (NELBO, lower is better) is
# evaluated on the same training rows at every look, and at $\boldsymbol\theta=\boldsymbol\mu$ for FNG; the NLPD on held-out rows by adaptive quadrature.


# %%
def parts(whole, rows):
    """Training data, and at most `rows` held-out rows of every output to test on."""
    train, held_out = whole.data.split(test=0.25, seed=0)
    kept = {o.name: np.sort(np.random.default_rng(0).permutation(len(o))[:rows]) for o in held_out}
    return train, held_out.take(kept)


def lmc_of(study, whole, train, inducing=None, whiten=False):
    """HetMOGP with the LMC as in a comparison (`author_start` puts the inducing inputs), and the author's constants."""
    names = whole.likelihoods if len(whole.likelihoods) > 1 else whole.likelihoods * train.num_outputs
    fixed = {"Gaussian": likelihoods.Gaussian(0.01, trainable=False)}
    kinds = [fixed.get(name) or getattr(likelihoods, name)() for name in names]
    Q, M = STUDIES[study]["latents"], min(inducing or np.inf, STUDIES[study]["inducing"])
    made = SparseMOGP(
        prior=LMC(unit_kernels(Q, train.input_dim), functions=sum(kind.latent_dim for kind in kinds)),
        inducing=InducingPoints(np.zeros((Q, M, train.input_dim))),
        posterior=Full(whiten),
        likelihood=kinds,
        names=train.names,
    )
    return made, author_constants(study, train.input_dim)


def follow(
    study,
    source,
    optimizer,
    *,
    steps,
    every,
    scored,
    rows,
    starts,
    inducing=None,
    options=None,
    averaged=0,
    changes=None,
):
    """Train from several starts: the objective after every `every` steps, test NLPD after the steps `scored`.

    One `fit` goes through all starts, so that its graph is traced once: at the end of one the monitor puts model and optimiser
    at the next. `changes` are options of FNG; `averaged` asks for the NLPD of predictions averaged over so many draws of q(θ).
    """
    own = STUDIES[study]
    stand_in = "only" if source == "stand-in" else "forbid"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = datasets.load(own["data"], stand_in=stand_in, **(own.get("options", {}) | (options or {})))
    train, test = parts(whole, rows)
    model, constants = lmc_of(study, whole, train, inducing)
    same_rows = train.batches(rows, 1)(0)
    looks = list(range(0, steps + 1, every))
    found = {name: [] for name in ("nelbo", "nlpd", "status", "largest", "smallest", "averaged_nlpd")}
    nelbo, nlpd = {}, {}

    def new_optimiser():
        given = dict(start=constants["start"], penalty=constants["penalty"])
        return optimiser(optimizer, **given) if changes is None else FNG(**given, **changes)

    def densities():
        return {name: np.asarray(density) for name, density in model.predict_log_density(test).items()}

    def scores(by_output):
        return [float(-np.mean(by_output[name])) for name in model.names]

    def look(step):
        nelbo[step] = float(model.training_loss(same_rows))
        if step in scored:
            nlpd[step] = scores(densities())

    def close(moves, status="finished"):
        """Keep what was seen of a start; one that failed keeps its last values."""
        last, end = nelbo[max(nelbo)], nlpd.get(steps) or scores(densities())
        found["nelbo"].append([nelbo.get(step, last) for step in looks])
        found["nlpd"].append([nlpd.get(step, end) for step in scored])
        found["status"].append(status)
        if optimizer == "FNG":
            variance = np.asarray(moves.rest.deviation) ** 2
            found["largest"].append(float(variance.max()))
            found["smallest"].append(float(variance.min()))
            if averaged:
                each = [densities() for _ in moves.draws(averaged)]
                mean = {n: np.logaddexp.reduce([one[n] for one in each]) - np.log(averaged) for n in model.names}
                found["averaged_nlpd"].append(scores(mean))
        nelbo.clear()
        nlpd.clear()

    def begin():
        author_start(model, train.X, width=constants["width"], seed=len(found["status"]))

    def monitor(moves, number):
        taken = every * next(number)
        if taken:
            look((taken - 1) % steps + 1)
        if taken and taken % steps == 0:
            close(moves)
            begin()
            fresh = new_optimiser()
            fresh.start(model)
            for mine, new in zip(moves.variables, fresh.variables, strict=True):
                mine.assign(new)
        if taken % steps == 0 and len(found["status"]) < starts:
            look(0)
        return {}

    while (first := len(found["status"])) < starts:
        begin()
        moves = new_optimiser()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = fit(
                model, train, steps=(starts - first) * steps, optimizer=moves, batch_size=own["batch_size"], seed=first,
                progress=False, monitor=partial(monitor, moves, itertools.count()), every=every,
            )  # fmt: skip
        if run.status != "finished":
            close(moves, run.status)
    return {"outputs": list(model.names), "looks": looks, **found}


# %% [markdown]
# A run is one optimiser on one data set from several starts; `sweep` keeps what is done, and at `long` runs two side by side.

# %%
OPTIMISERS = ("SGD", "Adam", "HYB", "FNG")
OPTIMISER_COLOURS = dict(zip(OPTIMISERS, (COLOURS[c] for c in ("grey", "orange", "green", "blue")), strict=True))


def swept(points):
    return sweep(follow, points, name="giraldo-4", workers=settings.workers, progress=False)


def runs_of(table, study, dim=None):
    """optimiser -> its run with the arrays `nelbo` [R, T] and `nlpd` [R, S, D], of one data set."""
    rows = table[table["study"] == study]
    if dim is not None:
        rows = rows[[options["P"] == dim for options in rows["options"]]]
    return {
        row["optimizer"]: {
            **row,
            "nelbo": np.array(row["nelbo"]),
            "nlpd": np.array(row["nlpd"]),
        }
        for row in rows.to_dict("records")
    }


def final(runs, what="nelbo"):
    """optimiser -> mean over starts of the last NELBO, or all last NLPDs [R, D]."""
    return {o: run["nelbo"][:, -1].mean() if what == "nelbo" else run["nlpd"][:, -1] for o, run in runs.items()}


def drop(runs):
    """optimiser -> how much its mean objective fell, and the largest such fall."""
    fallen = {o: (run["nelbo"][:, 0] - run["nelbo"][:, -1]).mean() for o, run in runs.items()}
    return fallen, max(fallen.values())


def iqr(values):
    low, high = np.quantile(values, [0.25, 0.75])
    return high - low


def listed(values, digits=3):
    return ", ".join(f"{name} {value:,.{digits}f}" for name, value in values.items())


def some(count, noun):
    return f"{count} {noun}" + ("" if count == 1 else "s")


def scale(starts, sizes):
    inducing = f", M = {sizes['inducing']}" if "inducing" in sizes else ""
    return f"{some(starts, 'start')}, {some(sizes['steps'], 'step')}{inducing}"


def fewer(starts, named=5):
    return f"{some(starts, 'start')} where the rule names {named}." if starts < named else ""


# %% tags=["hide-input"]
def trace_panel(ax, runs, title="objective"):
    """The objective of every start, thin, and its mean over starts."""
    for o, run in runs.items():
        ax.plot(run["looks"], run["nelbo"].T, color=OPTIMISER_COLOURS[o], lw=0.8, alpha=0.35)
        ax.plot(run["looks"], run["nelbo"].mean(0), color=OPTIMISER_COLOURS[o], lw=2.2, label=o)
    lowest, highest = (how([how(run["nelbo"]) for run in runs.values()]) for how in (np.min, np.max))
    if lowest <= 0:
        ax.set_yscale("symlog", linthresh=1000)
    else:
        ax.set_yscale("log")
        if highest < 1000 * lowest:  # few decades: ticks between the powers, as 20 k, 50 k
            for axis_locator, axis_formatter, subs in (
                (ax.yaxis.set_major_locator, ax.yaxis.set_major_formatter, (1,)),
                (ax.yaxis.set_minor_locator, ax.yaxis.set_minor_formatter, (2, 5)),
            ):
                axis_locator(LogLocator(subs=subs))
                axis_formatter(EngFormatter())
    ax.set(xlabel="iteration", ylabel="NELBO (nats)", title=title)


def box_panel(ax, groups, labels, title, xlabel, references=()):
    """Boxes over values: `groups` has for each label optimiser -> values, drawn side by side."""
    for i, o in enumerate(OPTIMISERS):
        colour, positions = OPTIMISER_COLOURS[o], np.arange(len(groups)) + 0.2 * (i - 1.5)
        values = [np.ravel(group[o]) for group in groups]
        ax.boxplot(
            values,
            positions=positions,
            widths=0.17,
            patch_artist=True,
            boxprops=dict(facecolor=colour, alpha=0.65, edgecolor=colour),
            flierprops=dict(marker="D", ms=2.5, markerfacecolor=colour, markeredgecolor="none"),
            medianprops=dict(color="black", lw=1.2),
            whiskerprops=dict(color=colour),
            capprops=dict(color=colour),
        )
        for position, own in zip(positions, values, strict=True):
            if len(own) <= 5:
                ax.plot(np.full(len(own), position), own, ".", ms=6, color=colour)
    for value, style in references:
        ax.axhline(value, color="black", lw=1, ls=style)
    ax.set_xticks(range(len(labels)), labels)
    ax.set(title=title, xlabel=xlabel, xlim=(-0.5, len(labels) - 0.5))
    everything = np.concatenate([np.ravel(values) for group in groups for values in group.values()])
    if everything.max() > 5 + np.median(everything):  # a run that went astray must not hide the others
        ax.set_yscale("symlog", linthresh=2.0)
        ax.yaxis.set_major_formatter(ScalarFormatter())


def output_panels(axes, runs, names, references=None):
    """For each output the test NLPD at the scored steps."""
    steps = next(iter(runs.values()))["scored"]
    for d, (ax, name) in enumerate(zip(axes, names, strict=True)):
        box_panel(
            ax,
            [{o: run["nlpd"][:, s, d] for o, run in runs.items()} for s in range(len(steps))],
            steps,
            name,
            "iteration",
            [] if references is None else [(references[d], ":")],
        )
        ax.set_ylabel("test NLPD")


def legend(figure, extra=()):
    handles = [plt.Line2D([], [], color=OPTIMISER_COLOURS[o], lw=5, alpha=0.8, label=o) for o in OPTIMISERS]
    figure.legend(handles=[*handles, *extra], loc="outside lower center", ncols=len(handles) + len(extra))


# %% [markdown]
# ## Ten dimensions (§4.6.1, Figure 4.1)
#
# The toy T2 has a heteroscedastic Gaussian, a Beta, a Bernoulli, a Gamma and an Exponential output, 2000 rows in the unit
# cube of ten dimensions, drawn from three latent GPs with lengthscales 0.5, 0.05 and 0.1. We add what the thesis does not
# have: a dotted line for the NLPD of *constant* parameters, fitted to the training targets without looking at any input.

# %%
ten = chapter.load("giraldo-toy", variant="T2", P=10, N=settings.toy_points)
TYPES = {
    "HeteroscedasticGaussian": "HetGaussian", "Beta": "Beta", "Bernoulli": "Bernoulli", "Gamma": "Gamma", "Exponential": "Exponential",
}  # fmt: skip
toy_runs = runs_of(
    swept(
        [
            dict(
                study="T2",
                source=ten.source,
                optimizer=o,
                starts=settings.toy_starts,
                options={"P": 10, "N": settings.toy_points},
                **settings.toy,
            )
            for o in OPTIMISERS
        ]
    ),
    "T2",
)

CONSTANT = {
    "HeteroscedasticGaussian": lambda y: stats.norm(*stats.norm.fit(y)).logpdf,
    "Beta": lambda y: stats.beta(*stats.beta.fit(y, floc=0, fscale=1)).logpdf,
    "Bernoulli": lambda y: stats.bernoulli(y.mean()).logpmf,
    "Gamma": lambda y: stats.gamma(*stats.gamma.fit(y, floc=0)).logpdf,
    "Exponential": lambda y: stats.expon(scale=y.mean()).logpdf,
}
ten_train, ten_test = parts(ten, settings.toy["rows"])
constant = [
    -float(np.mean(CONSTANT[kind](seen.Y[:, 0])(held.Y[:, 0])))
    for kind, seen, held in zip(ten.likelihoods, ten_train, ten_test, strict=True)
]

# %% tags=["hide-input"]
with chapter.figure(
    "giraldo-fig-4-1",
    nrows=2,
    ncols=3,
    figsize=(10.4, 6.6),
    data=ten,
    partial="" if settings.toy_starts >= 20 else f"{some(settings.toy_starts, 'start')} of 20",
    alt="Objective against iteration for SGD, Adam, HYB and FNG on toy T2 in ten dimensions, and box plots of the test NLPD "
    "of its five outputs at successive iterations, with the NLPD of constant parameters as a dotted line.",
) as axes:
    trace_panel(axes[0, 0], toy_runs)
    output_panels(
        axes.ravel()[1:], toy_runs, [f"Out{d + 1}: {TYPES[k]}" for d, k in enumerate(ten.likelihoods)], constant
    )
    legend(axes[0, 0].figure, [plt.Line2D([], [], color="black", ls=":", label="constant parameters")])

# %%
toy_scale = scale(settings.toy_starts, settings.toy)
ends, (falls, total) = final(toy_runs), drop(toy_runs)
in_order = all(ends[a] <= ends[b] + 0.02 * total for a, b in itertools.pairwise(("FNG", "HYB", "Adam", "SGD")))
strictly = all(ends[a] < ends[b] for a, b in itertools.pairwise(("FNG", "HYB", "Adam", "SGD")))
chapter.claim(
    "giraldo-4-c1",
    holds=bool(in_order and falls["SGD"] < 0.2 * falls["FNG"]),
    measured=f"mean final NELBO: {listed(ends, 0)}; fall of SGD {falls['SGD'] / falls['FNG']:.1e} of FNG's; the order is "
    f"{'also' if strictly else 'not'} strict ({toy_scale})",
    note=" ".join(
        [
            fewer(settings.toy_starts),
            f"Ties within 2 % of the drop are generous here: the start values are so bad that the drop is {total:,.0f} nats.",
        ]
    ).strip(),
)

# %%
medians = {o: np.median(run, axis=0) for o, run in final(toy_runs, "nlpd").items()}
place = {TYPES[k]: d for d, k in enumerate(ten.likelihoods)}
adam_bernoulli = medians["Adam"][place["Bernoulli"]]
better = {k: medians["HYB"][place[k]] < medians["Adam"][place[k]] for k in ("HetGaussian", "Gamma", "Exponential")}
consistent = {k: medians["FNG"][place[k]] <= medians["HYB"][place[k]] for k in ("Beta", "Bernoulli")}
chapter.claim(
    "giraldo-4-c2",
    holds=bool(abs(adam_bernoulli - 0.693) <= 0.03 and all(better.values()) and all(consistent.values())),
    measured="median test NLPD of Adam, HYB, FNG: "
    + "; ".join(f"{k} " + ", ".join(f"{medians[o][d]:.3f}" for o in ("Adam", "HYB", "FNG")) for k, d in place.items())
    + f". HYB below Adam on {', '.join(k for k, yes in better.items() if yes) or 'none'} of HetGaussian, Gamma, Exponential; FNG "
    f"not above HYB on {', '.join(k for k, yes in consistent.items() if yes) or 'none'} of Beta, Bernoulli ({toy_scale})",
    note=" ".join(
        [fewer(settings.toy_starts), "Constant parameters: " + listed(dict(zip(place, constant, strict=True))) + "."]
    ).strip(),
)

# %% [markdown]
# Look at the dotted lines. On the Bernoulli output nobody moves away from a fair coin, because there is little else to predict:
# with 1500 points in ten dimensions and lengthscales of 0.5 and less, a test point is far from all training points. What
# the optimisers differ in is how fast they unlearn start values that are worse than a constant.

# %%
best = np.min(list(medians.values()), axis=0)
chapter.claim(
    "giraldo-4-f3",
    holds=bool((best >= np.array(constant) - 0.02).all()),
    measured="lowest median test NLPD of the four, and of constant parameters: "
    + "; ".join(f"{k} {best[d]:.3f}, {constant[d]:.3f}" for k, d in place.items())
    + f" ({toy_scale})",
)

# %% [markdown]
# ## From one dimension to ten (Figure 4.2)
#
# T1 has the first three outputs, T3 ten of them. The mean NLPD of a run is the average over its outputs.

# %%
TOYS = ("T1", "T2", "T3")
toys = {
    (toy, P): chapter.load("giraldo-toy", variant=toy, P=P, N=settings.toy_points)
    for toy in TOYS
    for P in settings.dims
}
dim_sizes = {
    **settings.toy,
    "steps": settings.dims_steps,
    "every": settings.dims_steps,
    "scored": (settings.dims_steps,),
}
by_dim = swept(
    [
        dict(
            study=toy,
            source=whole.source,
            optimizer=o,
            starts=settings.dims[P],
            options={"P": P, "N": settings.toy_points},
            **dim_sizes,
        )
        for (toy, P), whole in toys.items()
        if (toy, P) != ("T2", 10)  # that one is in Figure 4.1
        for o in OPTIMISERS
    ]
)
at = settings.toy["scored"].index(settings.dims_steps)
mean_nlpd = {}
for toy, P in toys:
    for o, run in (toy_runs if (toy, P) == ("T2", 10) else runs_of(by_dim, toy, P)).items():
        values = run["nlpd"][:, at if (toy, P) == ("T2", 10) else 0]
        mean_nlpd[toy, P, o] = values[: settings.dims[P]].mean(-1)

# %% tags=["hide-input"]
with chapter.figure(
    "giraldo-fig-4-2",
    nrows=3,
    figsize=(8.6, 8.4),
    data=list(toys.values()),
    partial="" if len(settings.dims) == 6 else f"P in {', '.join(map(str, settings.dims))}",
    alt="Box plots of the mean test NLPD against the input dimension for SGD, Adam, HYB and FNG, one panel a toy set.",
) as axes:
    for ax, toy in zip(axes, TOYS, strict=True):
        box_panel(
            ax,
            [{o: mean_nlpd[toy, P, o] for o in OPTIMISERS} for P in settings.dims],
            list(settings.dims),
            f"{toy}: {some(len(toys[toy, 10].likelihoods), 'output')}",
            "",
        )
        ax.set_ylabel("mean test NLPD")
    axes[-1].set_xlabel("input dimension P")
    legend(axes[0].figure)

# %%
middle = {key: np.median(values) for key, values in mean_nlpd.items()}
high = [(toy, P) for toy in TOYS for P in settings.dims if P >= 2]
wins = sum(middle[toy, P, "FNG"] <= middle[toy, P, "HYB"] for toy, P in high)
ones = sum(middle[toy, 1, "HYB"] <= middle[toy, 1, "FNG"] for toy in TOYS) if 1 in settings.dims else 0
dim_scale = scale(max(settings.dims.values()), dim_sizes)
chapter.claim(
    "giraldo-4-c3",
    holds=bool(wins >= 0.8 * len(high) and ones >= 2),
    measured=f"FNG not above HYB in {wins} of {len(high)} cells with P ≥ 2"
    + (f"; HYB not above FNG at P = 1 in {ones} of 3 toys" if 1 in settings.dims else "; P = 1 was not run")
    + f" (P in {', '.join(map(str, settings.dims))}; {dim_scale})",
    note="" if len(settings.dims) == 6 else f"12 of 15 cells are read as four fifths of the {len(high)} that were run. "
    + fewer(max(settings.dims.values())),
)  # fmt: skip

# %%
spread_over = [P for P, count in settings.dims.items() if count >= 2]
spread = {
    toy: np.mean([iqr(mean_nlpd[toy, P, o]) for P in spread_over for o in OPTIMISERS]) if spread_over else np.nan
    for toy in ("T1", "T3")
}
rise = {o: [middle[toy, 10, o] - middle[toy, min(settings.dims), o] for toy in TOYS] for o in OPTIMISERS}
average_rise = {o: np.mean(values) for o, values in rise.items()}
chapter.claim(
    "giraldo-4-c4",
    holds=bool(
        spread["T3"] < spread["T1"]
        and min(min(values) for values in rise.values()) > 0
        and max(average_rise["FNG"], average_rise["HYB"]) < min(average_rise["Adam"], average_rise["SGD"])
    ),
    measured=f"mean interquartile range T1 {spread['T1']:.3f}, T3 {spread['T3']:.3f}; median NLPD at P = 10 minus P = {min(settings.dims)}, average "
    f"of the toys: {listed(average_rise)} (T1, T2, T3: "
    + "; ".join(f"{o} " + ", ".join(f"{v:.2f}" for v in values) for o, values in rise.items())
    + f"; {dim_scale})",
    note=" ".join(
        [
            fewer(max(settings.dims.values())),
            f"Spread over P = {', '.join(map(str, spread_over))}." if spread_over != list(settings.dims) else "",
        ]
    ).strip(),
)

# %% [markdown]
# ## Five data sets (§4.6.2)
#
# HUMAN (a person's phone: at home or not, distance from home, share of active apps) was never published; a synthetic stand-in of the same layout
# takes its place, and a verdict on it is not one on the claim. LONDON has prices of flats and houses and whether a home is a flat; NAVAL the decay
# of a compressor and of a turbine; SARCOS seven torques, here of the test file of 4449 rows; MOCAP7 forty joint angles of a walk, of which six do
# not move at all.

# %%
loaded = {name: chapter.load(STUDIES[name]["data"], **STUDIES[name].get("options", {})) for name in ALL}
VARIANTS = {
    ("LONDON", "FNG at the mean"): {"samples": 0},
    ("LONDON", "FNG at the mean, no momentum"): {"samples": 0, "momentum": 0.0},
    ("NAVAL", "FNG, no momentum"): {"momentum": 0.0},
    ("NAVAL", "FNG at the mean, no momentum"): {"samples": 0, "momentum": 0.0},
}
real_points = [
    dict(
        study=name,
        source=loaded[name].source,
        optimizer=o,
        starts=settings.real_starts,
        averaged=settings.averaged if o == "FNG" and name in settings.averaged_on else 0,
        **settings.real,
    )
    for name in ALL
    for o in OPTIMISERS
]
few_looks = {**settings.real, "scored": (settings.real["steps"],)}
part_points = [
    dict(study=name, source=loaded[name].source, optimizer="FNG", starts=1, changes=changes, **few_looks)
    for (name, _), changes in VARIANTS.items()
]
swept([*real_points, *part_points])
measured_on = swept(real_points)
real = {name: runs_of(measured_on, name) for name in ALL}
real_scale = scale(settings.real_starts, settings.real)

# %% tags=["hide-input"]
few_starts = "" if settings.real_starts >= 20 else f"{some(settings.real_starts, 'start')} of 20"


def joined(*reasons):
    return "; ".join(filter(None, reasons))


with chapter.figure(
    "giraldo-fig-4-3",
    nrows=2,
    ncols=2,
    figsize=(9.0, 6.8),
    data=loaded["HUMAN"],
    partial=few_starts,
    alt="Objective of four optimisers on the stand-in of HUMAN, and box plots of the test NLPD of its three outputs.",
) as axes:
    trace_panel(axes[0, 0], real["HUMAN"])
    output_panels(axes.ravel()[1:], real["HUMAN"], ["Bernoulli: at home", "HetGaussian: distance", "Beta: active apps"])
    legend(axes[0, 0].figure)

# %%
runs, ends = real["HUMAN"], final(real["HUMAN"])
averages = {o: values.mean() for o, values in final(runs, "nlpd").items()}
widths = {o: iqr(values[:, 0]) for o, values in final(runs, "nlpd").items()}
chapter.claim(
    "giraldo-4-c5",
    holds=bool(
        min(averages, key=averages.get) == "FNG" and max(widths, key=widths.get) == "FNG" and ends["SGD"] < ends["Adam"]
    ),
    measured=f"mean NLPD: {listed(averages)}; interquartile range on the Bernoulli output: {listed(widths, 4)}; mean final NELBO: {listed(ends, 0)} ({real_scale})",
    note=joined("On the synthetic stand-in: reported, not counted", fewer(settings.real_starts).rstrip(".")) + ".",
    data=loaded["HUMAN"],
)


# %% [markdown]
# ### LONDON and NAVAL (Figures 4.4, J.1, J.2)


# %% tags=["hide-input"]
def merged_figure(axes, names):
    """For each data set a row: objective, and the NLPD of all outputs and starts in one box."""
    for row, name in zip(axes, names, strict=True):
        trace_panel(row[0], real[name], f"{name}: objective")
        steps = settings.real["scored"]
        box_panel(
            row[1],
            [{o: run["nlpd"][:, s] for o, run in real[name].items()} for s in range(len(steps))],
            steps,
            f"{name}: all outputs",
            "iteration",
        )
        row[1].set_ylabel("test NLPD")
    legend(axes[0, 0].figure)


with chapter.figure(
    "giraldo-fig-4-4",
    nrows=2,
    ncols=2,
    figsize=(9.0, 6.8),
    data=[loaded["LONDON"], loaded["NAVAL"]],
    partial=few_starts,
    alt="Objective and merged test NLPD of four optimisers on LONDON and NAVAL.",
) as axes:
    merged_figure(axes, ("LONDON", "NAVAL"))

# %% tags=["hide-input"]
for identifier, name, labels in (
    ("giraldo-fig-j-1", "LONDON", ["HetGaussian: log price", "Bernoulli: flat or not"]),
    ("giraldo-fig-j-2", "NAVAL", ["Beta: compressor", "Gamma: turbine"]),
):
    with chapter.figure(
        identifier,
        ncols=3,
        figsize=(10.4, 3.9),
        data=loaded[name],
        partial=few_starts,
        alt=f"{name}: objective of four optimisers, and the test NLPD of each of its two outputs at successive iterations.",
    ) as axes:
        trace_panel(axes[0], real[name])
        output_panels(axes[1:], real[name], labels)
        legend(axes[0].figure)

# %%
runs, ends = real["LONDON"], final(real["LONDON"])
averages = {o: values.mean() for o, values in final(runs, "nlpd").items()}
bernoulli = {o: np.median(values[:, 1]) for o, values in final(runs, "nlpd").items()}


def together(scores):
    """FNG and HYB within 5 % of the distance from SGD to FNG, both below Adam, and Adam below SGD."""
    close = abs(scores["FNG"] - scores["HYB"]) <= 0.05 * abs(scores["SGD"] - scores["FNG"])
    return close and max(scores["FNG"], scores["HYB"]) < scores["Adam"] < scores["SGD"]


chapter.claim(
    "giraldo-4-c6",
    holds=bool(together(ends) and together(averages) and bernoulli["FNG"] <= bernoulli["HYB"]),
    measured=f"mean final NELBO: {listed(ends, 0)}; mean NLPD: {listed(averages)}; Bernoulli median: {listed(bernoulli)} ({real_scale})",
    note=fewer(settings.real_starts),
)


# %%
def reached(run, level):
    """The iteration at which a trace first reaches a level, by linear interpolation between looks; NaN if it does not."""
    looks, trace = np.array(run["looks"]), run["nelbo"].mean(0) if run["nelbo"].ndim == 2 else run["nelbo"]
    below = np.flatnonzero(trace <= level)
    if not len(below):
        return np.nan
    i = below[0]
    if i == 0:
        return 0.0
    return looks[i - 1] + (looks[i] - looks[i - 1]) * (trace[i - 1] - level) / (trace[i - 1] - trace[i])


runs, ends = real["NAVAL"], final(real["NAVAL"])
falls, _ = drop(runs)
to_adam = {o: reached(run, ends["Adam"]) for o, run in runs.items()}
ranked = {o: np.inf if np.isnan(v) else v for o, v in to_adam.items()}
pooled = {o: values.ravel() for o, values in final(runs, "nlpd").items()}
by = {"mean": np.mean, "median": np.median, "interquartile range": iqr}
pooled_by = {word: {o: how(values) for o, values in pooled.items()} for word, how in by.items()}
chapter.claim(
    "giraldo-4-c7",
    holds=bool(
        min(ranked, key=ranked.get) == "FNG"
        and all(min(pooled_by[word], key=pooled_by[word].get) == "FNG" for word in ("mean", "median"))
        and max(pooled_by["interquartile range"], key=pooled_by["interquartile range"].get) == "FNG"
        and falls["SGD"] < 0.2 * falls["FNG"]
    ),
    measured="iterations to Adam's final NELBO: "
    + ", ".join(f"{o} {'never' if np.isnan(v) else f'{v:.0f}'}" for o, v in to_adam.items())
    + "; "
    + "; ".join(f"{word} NLPD: {listed(values)}" for word, values in pooled_by.items())
    + f"; fall of SGD {falls['SGD'] / falls['FNG']:.1e} of FNG's ({real_scale})",
    note=fewer(settings.real_starts),
)

# %%
by_output = final(runs, "nlpd")
middles = {o: np.median(values, axis=0) for o, values in by_output.items()}
widths = {o: [iqr(values[:, d]) for d in range(2)] for o, values in by_output.items()}
chapter.claim(
    "giraldo-j-c1",
    holds=bool(
        middles["FNG"][0] < min(middles["HYB"][0], middles["Adam"][0])
        and 0 <= middles["FNG"][1] - middles["HYB"][1] <= 0.1
        and widths["FNG"][1] < min(widths["HYB"][1], widths["Adam"][1])
    ),
    measured="median NLPD on Beta: "
    + listed({o: middles[o][0] for o in ("Adam", "HYB", "FNG")})
    + "; on Gamma: "
    + ", ".join(f"{o} {middles[o][1]:.3f} (interquartile range {widths[o][1]:.3f})" for o in ("Adam", "HYB", "FNG"))
    + f" ({real_scale})",
    note=fewer(settings.real_starts),
)

# %% [markdown]
# ### SARCOS and MOCAP7 (Figure 4.5)

# %% tags=["hide-input"]
with chapter.figure(
    "giraldo-fig-4-5",
    nrows=2,
    ncols=2,
    figsize=(9.0, 6.8),
    data=[loaded["SARCOS"], loaded["MOCAP7"]],
    partial=joined("the test file of SARCOS, split again", few_starts),
    alt="Objective and merged test NLPD of four optimisers on the test file of SARCOS and on MOCAP7.",
) as axes:
    merged_figure(axes, ("SARCOS", "MOCAP7"))

# %%
sarcos, walk = final(real["SARCOS"]), final(real["MOCAP7"])
(_, sarcos_drop), (_, walk_drop) = drop(real["SARCOS"]), drop(real["MOCAP7"])
traces = {o: real["MOCAP7"][o]["nelbo"].mean(0) for o in OPTIMISERS}
early = np.array([0 < step < 500 for step in real["MOCAP7"]["FNG"]["looks"]])
apart = np.abs(traces["FNG"] - traces["HYB"])[early].max() / walk_drop if early.any() else np.nan
chapter.claim(
    "giraldo-4-c8",
    holds=bool(
        abs(sarcos["Adam"] - sarcos["HYB"]) <= 0.05 * sarcos_drop
        and min(sarcos, key=sarcos.get) == "FNG"
        and apart <= 0.1
        and walk["FNG"] <= walk["HYB"] < walk["Adam"] < walk["SGD"]
    ),
    measured=f"SARCOS: mean final NELBO {listed(sarcos, 0)}; |Adam − HYB| is {abs(sarcos['Adam'] - sarcos['HYB']) / sarcos_drop:.1%} of the "
    f"drop. MOCAP7: {listed(walk, 0)}; FNG and HYB at most {apart:.1%} of the drop apart before iteration 500 ({real_scale})",
    note=joined(
        "SARCOS: the test file, split again",
        f"iterations end at {settings.real['steps']}, before the events at 500 and 600"
        if settings.real["steps"] <= 600
        else "",
    )
    + ".",
)

# %% [markdown]
# ## How many iterations does FNG save?
#
# The mean objective of Adam at its last iteration is a level; when do HYB and FNG reach it?

# %%
rows = []
for name in ("LONDON", "NAVAL", "SARCOS", "MOCAP7"):
    runs, level, T = real[name], final(real[name])["Adam"], settings.real["steps"]
    saved = {o: reached(runs[o], level) for o in ("HYB", "FNG")}
    single = [
        reached({**runs["FNG"], "nelbo": own}, adam[-1]) <= T / 3
        for own, adam in zip(runs["FNG"]["nelbo"], runs["Adam"]["nelbo"], strict=True)
    ]
    rows.append(
        {
            "data": name,
            "Adam, iterations": T,
            "its NELBO": f"{level:,.0f}",
            **{f"{o} reaches it at": "never" if np.isnan(v) else f"{v:.0f}" for o, v in saved.items()},
            "FNG / Adam": "" if np.isnan(saved["FNG"]) else f"{saved['FNG'] / T:.2f}",
            "starts in which FNG needs a third or less": f"{sum(single)} of {len(single)}",
        }
    )
iterations = pd.DataFrame(rows)
chapter.table(
    "giraldo-finding-iterations",
    iterations,
    data=[loaded[name] for name in ("LONDON", "NAVAL", "SARCOS", "MOCAP7")],
)

# %%
thirds = [row["data"] for row in rows if row["FNG / Adam"] and float(row["FNG / Adam"]) <= 1 / 3]
chapter.claim(
    "giraldo-4-f1",
    holds=len(thirds) >= 2,
    measured="iterations of FNG over those of Adam: "
    + ", ".join(f"{row['data']} {row['FNG / Adam'] or 'never reached'}" for row in rows)
    + f" ({real_scale})",
    note=joined(fewer(settings.real_starts).rstrip("."), f"looks every {settings.real['every']} iterations") + ".",
)

# %% [markdown]
# ## Which part of FNG does what?
#
# FNG is HYB with three changes: momentum in $\mathbf m$, a draw of $\boldsymbol\theta$ in place of its mean, and the penalty. From the first start,
# with one or both of the first two switched off:

# %%
part_runs = dict(zip(VARIANTS, swept(part_points).to_dict("records"), strict=True))
variants = {}
for name in ("LONDON", "NAVAL"):
    compared = {o: real[name][o] for o in ("HYB", "FNG")} | {k: run for (n, k), run in part_runs.items() if n == name}
    for label, run in compared.items():
        variants[name, label] = {
            "NELBO at the end": np.array(run["nelbo"])[0, -1],
            "smallest variance of q(θ)": run["smallest"][0] if len(run["smallest"]) else np.nan,
        }
shown = pd.DataFrame(variants).T.rename_axis(["data", "optimiser"])
chapter.table(
    "giraldo-finding-parts",
    pd.DataFrame(
        {
            "NELBO at the end": shown["NELBO at the end"].map("{:,.0f}".format),
            "smallest variance of q(θ)": shown["smallest variance of q(θ)"].map(
                lambda v: "" if np.isnan(v) else f"{v:.0e}"
            ),
        }
    ),
    data=[loaded["LONDON"], loaded["NAVAL"]],
)

# %%
drawn, still = variants["LONDON", "FNG"], variants["LONDON", "FNG at the mean"]
small_variance = "smallest variance of q(θ)"
chapter.claim(
    "giraldo-4-f4",
    holds=bool(
        still["NELBO at the end"] <= 0.8 * drawn["NELBO at the end"]
        and drawn[small_variance] <= 1e-10 * still[small_variance]
    ),
    measured=f"LONDON, start 0: NELBO {drawn['NELBO at the end']:,.0f} with a draw a step, {still['NELBO at the end']:,.0f} at the mean; smallest "
    f"variance {drawn[small_variance]:.0e} and {still[small_variance]:.0e} ({some(settings.real['steps'], 'step')})",
)

# %% [markdown]
# What happens on LONDON from the first start: with $\mathbf V=\mathbf I$ and inducing inputs that the draw has moved, the objective
# is astronomically larger at the draw than at the mean, and so is its gradient. Its square goes into the running mean of squared
# gradients, which forgets at a rate of 0.999 a step:

# %%
london_train, _ = parts(loaded["LONDON"], settings.real["rows"])
frozen, constants = lmc_of("LONDON", loaded["LONDON"], london_train, settings.real.get("inducing"))
author_start(frozen, london_train.X, width=constants["width"], seed=0)
first = FNG(start=constants["start"], penalty=constants["penalty"], seed=0)
first.start(frozen)
batch = london_train.batches(STUDIES["LONDON"]["batch_size"], 0)(0)
at_mean = Adam()
at_mean.start_on(flat(frozen))
looks = {"at the mean": at_mean.evaluate(lambda: frozen.training_loss(batch))}
looks["at the first draw"] = first.rest.evaluate(lambda: frozen.training_loss(batch))
largest = {name: max(float(tf.reduce_max(tf.abs(g))) for g in seen.gradients) for name, seen in looks.items()}
remembered = 1e-3 * largest["at the first draw"] ** 2
pd.DataFrame(
    {
        "NELBO": {name: f"{float(seen.value):.1e}" for name, seen in looks.items()},
        "largest gradient": {name: f"{g:.1e}" for name, g in largest.items()},
        "steps until its square is forgotten (falls to 10⁶)": {
            "at the first draw": f"{max(0.0, np.log(remembered / 1e6) / -np.log(0.999)):,.0f}"
        },
    }
).fillna("")

# %% [markdown]
# Parameters that met such a gradient do not move again within any of the runs. Adam has the same memory, and the same weakness for start
# values with large gradients; it only never looks at a draw. On NAVAL the parts pull in different directions: momentum moves $q(\mathbf u)$ about ten times as
# far a step, which pays at first (Figure 4.4), while the draws cost; once $q(\mathbf u)$ has adapted to hyper-parameters that are still near their start,
# both FNG and HYB go at the pace of the hyper-parameters.
#
# ## Is the mean of $q(\boldsymbol\theta)$ enough? (§4.5)
#
# The thesis predicts at $\boldsymbol\theta=\boldsymbol\mu$ since variances of $10^{-15}$ and less make averaging pointless. We can do both:

# %%
averaged = {
    name: (final(real[name], "nlpd")["FNG"], np.array(real[name]["FNG"]["averaged_nlpd"]))
    for name in settings.averaged_on
}
differences = {name: np.abs(mixed - at_mu).max() for name, (at_mu, mixed) in averaged.items()}
signed = {name: float((mixed - at_mu).mean()) for name, (at_mu, mixed) in averaged.items()}
largest_variance = {name: max(real[name]["FNG"]["largest"]) for name in ALL}
chapter.claim(
    "giraldo-4-c9",
    holds=bool(max(differences.values()) <= 0.01),
    measured=f"largest difference of an output's NLPD: {listed(differences, 4)}; mean of averaged minus at the mean: {listed(signed, 4)}; largest final "
    f"variance of q(θ): {', '.join(f'{k} {v:.1e}' for k, v in largest_variance.items())} ({some(settings.averaged, 'draw')}, {real_scale})",
    note=joined(
        f"{some(settings.averaged, 'draw')} where the rule names 50" if settings.averaged < 50 else "",
        "variances of parameters that the objective does not depend on tend to 1/λ₁, not to zero",
    )
    + ".",
    data=[loaded[name] for name in settings.averaged_on],
)

# %% [markdown]
# ## Is the objective a bound? (§4.2)
#
# The objective above takes the expectation under the *product* of the marginals of an output's functions. In the LMC they are
# correlated under $q$, and then it is not the expectation it should be. Chapter 3 has maximised both over $q$; here is one
# observation $y=3$ at one input, with one latent GP, $f_1=f_2=u$, and $q(u)=\mathcal N(1.1,0.44)$ built in the library: its objective, the same with the joint
# of $f_1$ and $f_2$ (closed form), and the evidence by quadrature. Below it, the two models whose functions are independent under
# $q$: a CGP, and a convolution process with inducing variables on the functions (CPM-f, chapter 5), each over five random
# posteriors.

# %%
heteroscedastic = likelihoods.HeteroscedasticGaussian()
single = MultiOutputData.from_list([(np.zeros((1, 1)), np.array([3.0]))], names=["y"])
nodes, weights = np.polynomial.hermite_e.hermegauss(100)
weights = weights / weights.sum()


def evidence(var_1, var_2, shared):
    """log p(y = 3): f₁ and f₂ with prior variances, one variable (shared) or independent."""
    f1 = np.sqrt(var_1) * nodes[:, None]
    f2 = np.sqrt(var_2) * (nodes[:, None] if shared else nodes[None, :])
    log_density = stats.norm.logpdf(3.0, f1, np.exp(f2 / 2))
    return special.logsumexp(log_density, b=weights[:, None] * (1.0 if shared else weights[None, :]))


def bounds(model):
    """The objective of the model, and with the joint of the two functions in the expectation."""
    F = model.predict_f(np.zeros((1, 1)), full_output_cov=True)
    joint = float(heteroscedastic.variational_expectations_joint(F.mean, F.var, np.array([[3.0]]))[0])
    return float(model.elbo(single)), joint - float(model.kl())


one_latent = ccgp(
    single,
    heteroscedastic,
    latents=1,
    inducing=1,
    whiten=False,
    scaling=None,
    start="plain",
)
one_latent.prior.W.assign(np.ones((2, 1)))
one_latent.posterior.q_mu.assign([[1.1]])
one_latent.posterior.q_sqrt.assign([[[np.sqrt(0.44)]]])
product, exact = bounds(one_latent)
truth = evidence(1.0, 1.0, shared=True)

independent = {}
for name, made in (
    ("CGP", cgp(single, heteroscedastic, inducing=1, scaling=None, start="plain")),
    (
        "CPM-f",
        hetmogp_cpm(
            single,
            [heteroscedastic],
            latents=1,
            inducing=1,
            scaling=None,
        ),
    ),
):
    var_1, var_2 = made.predict_f(np.zeros((1, 1))).var.numpy()[0]  # q is the prior until trained
    above, gap = -np.inf, 0.0
    draws = np.random.default_rng(seed)
    for _ in range(5):
        made.posterior.q_mu.assign(draws.standard_normal(made.posterior.q_mu.shape))
        made.posterior.q_sqrt.assign(draws.uniform(0.2, 1.2, made.posterior.q_sqrt.shape))
        own, joint = bounds(made)
        above, gap = max(above, own - evidence(var_1, var_2, shared=False)), max(gap, abs(own - joint))
    independent[name] = above, gap

pd.DataFrame(
    {
        "product of marginals": [f"{product:.3f}", *("" for _ in independent)],
        "joint": [f"{exact:.3f}", *("" for _ in independent)],
        "log evidence": [f"{truth:.3f}", *("" for _ in independent)],
        "objective − evidence, largest": [f"{product - truth:+.3f}", *(f"{a:+.3f}" for a, _ in independent.values())],
        "|product − joint|, largest": [f"{product - exact:.3f}", *(f"{g:.0e}" for _, g in independent.values())],
    },
    index=["LMC, f₁ = f₂ = u", *independent],
)

# %%
exceeds = product - exact > 0.1
others_hold = all(above <= 1e-9 and gap <= 1e-9 for above, gap in independent.values())
chapter.claim(
    "giraldo-4-c10",
    holds=bool(not exceeds),
    measured=f"LMC, one observation: objective {product:.3f}, with the joint {exact:.3f}, log evidence {truth:.3f}; the first is larger than the exact "
    f"ELBO by {product - exact:.3f} and than the evidence by {product - truth:.3f}. CGP and CPM-f, 5 random posteriors each: "
    + ("never above the evidence, product and joint equal" if others_hold else f"{independent}"),
    note="The claim is true of models whose functions are independent under q (CGP, CPM-f), not of the LMC.",
)

# %% [markdown]
# ## Why SGD does not progress
#
# The released code gives SGD a step of $10^{-15}$. On the toys, NAVAL and SARCOS that is nothing; on LONDON and MOCAP7, where the first gradients are
# enormous, it is a little. Larger steps "break the conditioning", says the thesis. Plain gradient descent is short enough to write
# out, so here it is for steps of $10^{-15}$ to $10^{-3}$, on T2 in ten dimensions from the first start: with the parameters of the
# thesis, those of $q(\mathbf u)$, and with *whitened* ones, those of $\mathbf v$ in $\mathbf u=\mathbf L\mathbf v$, $\mathbf K_{uu}=\mathbf L\mathbf L^\top$.


# %%
def descend(model, data, steps, batch_size=50):
    """A function of the step size: plain gradient descent on mini-batches from where the model is."""
    source, variables = data.batches(batch_size, 0), model.trainable_variables

    @tf.function(autograph=False)
    def run(rate):
        def one(step):
            with tf.GradientTape() as tape:
                loss = model.training_loss(source(step))
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(rate * gradient)
            return (step + 1,)

        tf.while_loop(lambda step: step < steps, one, (tf.constant(0, tf.int64),))

    return run


sgd_ends, sgd_starts = {}, {}
ten_rows = ten_train.batches(settings.toy["rows"], 1)(0)
for kind in ("un-whitened", "whitened"):
    plain, constants = lmc_of("T2", ten, ten_train, settings.toy.get("inducing"), whiten=kind == "whitened")
    run = descend(plain, ten_train, settings.sgd_steps)
    for rate in settings.sgd_rates:
        author_start(plain, ten_train.X, width=constants["width"], seed=0)
        sgd_starts[kind] = float(plain.training_loss(ten_rows))
        try:
            run(tf.constant(rate, tf.float64))
            sgd_ends[kind, rate] = float(plain.training_loss(ten_rows))
        except tf.errors.InvalidArgumentError:  # a covariance that cannot be factorised
            sgd_ends[kind, rate] = np.nan


def stable(kind):
    """The largest step after which the objective is finite and below its start, and the objective there."""
    good = [rate for rate in settings.sgd_rates if sgd_ends[kind, rate] < sgd_starts[kind]]
    return (max(good), sgd_ends[kind, max(good)]) if good else (np.nan, np.nan)


adam_run = toy_runs["Adam"]
adam_then = adam_run["nelbo"][0, adam_run["looks"].index(settings.sgd_steps)]

# %% tags=["hide-input"]
with chapter.figure(
    "giraldo-finding-sgd",
    figsize=(8.2, 3.9),
    data=ten,
    alt="Objective after plain gradient descent against the step size, with un-whitened and whitened parameters; crosses mark "
    "steps that diverged, horizontal lines the objective at the start and after Adam.",
) as ax:
    top = 3 * max(sgd_starts.values())
    for kind, colour, marker in (("un-whitened", "red", "o"), ("whitened", "blue", "s")):
        ends = np.array([sgd_ends[kind, rate] for rate in settings.sgd_rates])
        fine = np.isfinite(ends) & (ends < top)
        rates = np.array(settings.sgd_rates)
        ax.plot(rates[fine], ends[fine], marker + "-", color=COLOURS[colour], label=kind)
        ax.plot(
            rates[~fine],
            np.full((~fine).sum(), top * (1.0 if kind == "whitened" else 1.6)),
            "x",
            ms=9,
            mew=2,
            color=COLOURS[colour],
        )
        ax.axhline(sgd_starts[kind], color=COLOURS[colour], ls=":", lw=1.2, label=f"{kind}, start")
    ax.plot([], [], "x", color="black", ms=9, mew=2, label="diverged")
    ax.axhline(adam_then, color=OPTIMISER_COLOURS["Adam"], ls="--", label="Adam 0.005, un-whitened")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="step size of SGD",
        ylabel=f"NELBO after {some(settings.sgd_steps, 'iteration')}",
    )
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))

# %%
rate, reached_then = stable("un-whitened")
fall = sgd_starts["un-whitened"] - adam_then
shares = {r: (sgd_starts["un-whitened"] - sgd_ends["un-whitened", r]) / fall for r in (settings.sgd_rates[0], rate)}
white_rate, white_end = stable("whitened")
chapter.claim(
    "giraldo-4-f2",
    holds=bool(shares[rate] >= 0.9 and abs(shares[settings.sgd_rates[0]]) < 0.01),
    measured=f"T2, start 0, {some(settings.sgd_steps, 'iteration')}: largest stable step {rate:.0e}, NELBO {sgd_starts['un-whitened']:,.0f} → {reached_then:,.0f} "
    f"({shares[rate]:.1%} of the fall of Adam, which is at {adam_then:,.0f}); with 1e-15 {shares[settings.sgd_rates[0]]:.0e} of it. Whitened: step {white_rate:.0e}, "
    f"{sgd_starts['whitened']:,.0f} → {white_end:,.0f}",
)

# %% [markdown]
# Eight orders of magnitude are to be had, and whitening changes nothing: in ten dimensions the inducing inputs are so far apart that $\mathbf K_{uu}$ is well
# conditioned. What limits the step are the exponentials in the Beta and Gamma likelihoods at the start values.
#
# ## What we found that the document does not say
#
# - In ten dimensions there is little in the toy T2 to predict: constant parameters do as well on most outputs after a thousand steps, and on all of them after a hundred (claim giraldo-4-f3, and the recorded
#   run in its box). Differences in Figure 4.1 are first of all differences in unlearning the start.
# - A draw of hyper-parameters can be so bad that the memory of its gradient freezes FNG for the rest of the run (giraldo-4-f4); evaluated at the mean it would not have happened.
# - How many iterations FNG saves depends on the data, the start and the number of iterations that Adam is given (giraldo-4-f1).
# - "SGD does not progress" is a statement about a step of $10^{-15}$ (giraldo-4-f2).
# - Variances of $q(\boldsymbol\theta)$ do not vanish for parameters that do not matter; predictions do not depend on those (giraldo-4-c9).
# - The objective is a bound for independent functions only (giraldo-4-c10).
# - Comparing final objectives relative to the drop says little where the start is astronomically bad: the last nats are what matters for prediction.
# - Slips: the definition of $\tilde{\mathbf Q}$ in §4.2, which should be $\mathbf K_{ff}-\mathbf K_{fu}\mathbf K_{uu}^{-1}\mathbf K_{uf}$; the size of MOCAP7 (744 frames printed, 329 in the
#   recording that the released code reads).

# %% [markdown] tags=["exercise"]
# ## Exercises
#
# ### Exercise 1
#
# Why does Adam stall on the Bernoulli output of T2? Compare, at the start values, the gradient of each output's data term with respect to the shared means $\mathbf m_q$, and
# with respect to the output's own rows of the mixing matrix. Then say what Adam makes of the sum.

# %% tags=["solution"]
stalled, constants = lmc_of("T2", ten, ten_train, settings.toy.get("inducing"))
author_start(stalled, ten_train.X, width=constants["width"], seed=0)
shared, weights_of = stalled.posterior.q_mu.unconstrained_variable, stalled.prior.W.unconstrained_variable
with tf.GradientTape(persistent=True) as tape:
    terms = tf.unstack(stalled.data_terms(ten_rows))
pieces = []
for d, (kind, term) in enumerate(zip(ten.likelihoods, terms, strict=True)):
    functions = stalled.likelihood.functions(d)
    own_rows = tape.gradient(term, weights_of).numpy()[functions.start : functions.stop]
    pieces.append((TYPES[kind], float(term), np.linalg.norm(tape.gradient(term, shared)), np.linalg.norm(own_rows)))
pd.DataFrame(pieces, columns=["output", "data term", "|gradient by m|", "|gradient by own weights|"]).set_index(
    "output"
).map("{:,.0f}".format)

# %% [markdown] tags=["solution"]
# The slope of a Bernoulli log-likelihood is $y-p$, at most one a row. Beta and Gamma have exponentials of badly chosen functions in them, and slopes that are
# a thousand times as large and more. Parameters that all outputs share ($\mathbf m$, $\mathbf V$, lengthscales, inducing inputs) get the sum: Adam divides it by its
# running size, so the direction is that of the others and the Bernoulli's part is lost in it, long after the start too because the running size
# remembers. What is left are the Bernoulli's own weights, which Adam moves by at most 0.005 a step. And there is next to nothing to find: with these lengthscales no
# model predicts the labels of new points in ten dimensions much better than a constant (giraldo-4-f3). So 0.693 is where a good optimiser would stay, too.

# %% [markdown] tags=["exercise"]
# ### Exercise 2
#
# A natural-gradient step of size one jumps to the optimum of a conjugate model. Show it for one output with Gaussian noise $\sigma^2=0.1$ and one latent GP, against the closed
# form $\mathbf V^{-1}=\mathbf K_{uu}^{-1}+\sigma^{-2}\mathbf A^\top\mathbf A$, $\mathbf m=\sigma^{-2}\mathbf V\mathbf A^\top\mathbf y$, from a start of your choice.

# %% tags=["solution"]
noisy = MultiOutputData.from_list([(line.X[::10], line.Y[::10, 0])], names=["y"])
conjugate = hetmogp_lmc(
    noisy,
    [likelihoods.Gaussian(0.1)],
    latents=1,
    inducing=10,
    whiten=False,
    seed=seed,
    scaling=None,
    start="plain",
)
conjugate.posterior.q_mu.assign(np.random.default_rng(1).standard_normal((10, 1)))
conjugate.posterior.q_sqrt.assign(0.3 * np.eye(10)[None])
K = conjugate.inducing.Kuu(conjugate.prior.kernels).numpy()[0] + gpflow.default_jitter() * np.eye(10)
w = float(conjugate.prior.W.numpy()[0, 0])
A = w * np.linalg.solve(K, conjugate.inducing.Kuf(conjugate.prior.kernels, tf.constant(noisy.X)).numpy()[0]).T
V = np.linalg.inv(np.linalg.inv(K) + A.T @ A / 0.1)
m = V @ A.T @ noisy[0].Y / 0.1

jump = Natural(Adam(0.01), gamma=1.0)
jump.start(conjugate)
jump.step(conjugate, lambda: conjugate.training_loss(noisy))  # moves θ too, by Adam, but q(u) from the same evaluation
L = conjugate.posterior.q_sqrt.numpy()[0]
off = {"m": np.abs(conjugate.posterior.q_mu.numpy() - m).max(), "V": np.abs(L @ L.T - V).max()}
assert max(off.values()) < 1e-8, off
pd.DataFrame({"distance to the closed form after one step": off}).map("{:.0e}".format)

# %% [markdown] tags=["exercise"]
# ### Exercise 3
#
# Turn FNG into HYB: which of its options must be switched off so that both take the same steps? Check five of them.

# %% tags=["solution"]
ways = {
    "hyb": hyb(0.005, 0.005),
    "FNG, reduced": FNG("vadam", samples=0, momentum=0.0, start=0.0, penalty=1e-8),
    "FNG": FNG("vadam"),
}
after = {}
for name, moves in ways.items():
    gpflow.utilities.multiple_assign(small, start)
    moves.start(small)
    for _ in range(5):
        moves.step(small, lambda: small.training_loss(pair))
    after[name] = np.concatenate([v.numpy().ravel() for v in small.trainable_variables])
pd.DataFrame(
    {"largest difference to HYB": {name: np.abs(after[name] - after["hyb"]).max() for name in ways if name != "hyb"}}
).map("{:.0e}".format)

# %% [markdown] tags=["solution"]
# No draws (`samples=0`), no momentum, an exploratory precision that starts at zero, and a penalty as small as Adam's $\epsilon$: then Vadam is Adam and the natural steps are the same.

# %%
chapter.finish()
