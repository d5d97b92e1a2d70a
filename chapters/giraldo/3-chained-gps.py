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
# # Giraldo 3: Chained Gaussian processes
#
# Most likelihoods have more than one parameter, and nothing says that only the mean should depend on the input. A *chained*
# GP {cite}`saul2016chained` gives every parameter of the likelihood a latent function; the *correlated* chained GP of
# {cite}`giraldo2021thesis` lets these functions share latent processes, and the *augmented* one trains it on two copies
# of its output. This chapter builds the three, trains them with the thesis's optimiser and with a plainer one, and asks
# where the differences in its tables come from.
#
# | | |
# |---|---|
# | **Shows** | Figures 3.1–3.3, Tables 3.1 and 3.2, the table of Appendix I; claims giraldo-3-c1 to c10, giraldo-g-c1, giraldo-i-c1 |
# | **Adds** | each closed form against quadrature; an example where the objective of a CCGP exceeds the evidence; what the start value of FNG does to the weights; the augmented model against a CCGP whose KL counts half; coverage of the intervals; how to estimate a predictive density; two outputs of different type in one model |
# | **Data** | the motorcycle data {cite}`silverman1985`, 133 points; five regression tables of the UCI repository; the synthetic toy T1 of the thesis |
# | **Time** | `smoke` half a minute; `quick` two minutes on one core; `long` about half an hour on two; `paper` has the thesis's fifteen starts |

# %% tags=["parameters"]
profile = "quick"
seed = 0

# %%
import warnings

import gpflow
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from matplotlib.lines import Line2D
from scipy import special, stats

from mogp import MultiOutputData, datasets, fit, likelihoods, metrics
from mogp.book import Chapter
from mogp.book.runs.heterogeneous import STUDIES, author_constants, author_start, heterogeneous_model, optimiser
from mogp.datasets.scaling import unit_interval
from mogp.experiments import sweep
from mogp.models import accgp, ccgp, cgp, hetmogp_lmc, twofold
from mogp.optimizers import NaturalAdam
from mogp.plotting import COLOURS, bands
from mogp.project import data_folder

chapter = Chapter("giraldo/3", profile=profile, seed=seed)

# %% [markdown]
# The settings are the whole difference between the profiles. `descent` is Figure 3.1, `motor` Figures 3.2 and 3.3 with Table 3.1,
# `table` Table 3.2. The thesis takes fifteen starts and says nothing about the number of steps; 2000 is what its author's
# released code suggests.

# %%
ALL = ("motor", "yacht", "boston", "concrete", "bike", "protein")
settings = chapter.settings(
    smoke=dict(
        steps=3, toy_steps=2, toy_points=100, repeats=20, eager=True, workers=0, levels=False,
        descent=dict(starts=dict(boston=1, yacht=1, concrete=1), steps=1, every=1, slow_on=("yacht",)),
        motor=dict(splits=1, starts=1, steps=1, exact_splits=1, exact_steps=1, exact_on=("50/50",)),
        table=dict(cells=(("HG", ("yacht",)),), inducing=(20,), starts=1, steps=1, most_rows=30),
    ),
    quick=dict(
        steps=400, toy_steps=150, toy_points=300, repeats=300, eager=False, workers=0, levels=False,
        descent=dict(starts=dict(boston=1, yacht=2, concrete=1), steps=240, every=30, slow_on=()),
        motor=dict(splits=1, starts=1, steps=1000, exact_splits=1, exact_steps=1000, exact_on=("50/50",)),
        table=dict(cells=(("HG", ("yacht",)),), inducing=(20,), starts=1, steps=500, most_rows=300),
    ),
    long=dict(
        steps=3000, toy_steps=1500, toy_points=1000, repeats=1000, eager=False, workers=2, levels=False,
        descent=dict(starts=dict(boston=5, yacht=5, concrete=5), steps=1000, every=25, slow_on=("yacht",)),
        motor=dict(splits=5, starts=2, steps=2000, exact_splits=5, exact_steps=1500, exact_on=("50/50", "75/25")),
        table=dict(cells=(("HG", ALL), ("Bt", ALL), ("Ga", ALL)), inducing=(20, 40), starts=2, steps=1000, most_rows=400),
    ),
    paper=dict(
        steps=10_000, toy_steps=10_000, toy_points=2000, repeats=1000, eager=False, workers=None, levels=True,
        descent=dict(starts=dict(boston=15, yacht=15, concrete=15), steps=2000, every=25, slow_on=("boston", "yacht")),
        motor=dict(splits=15, starts=15, steps=2000, exact_splits=15, exact_steps=10_000, exact_on=("50/50", "75/25")),
        table=dict(cells=(("HG", ALL), ("Bt", ALL), ("Ga", ALL)), inducing=(20, 40), starts=15, steps=2000, most_rows=10**6),
    ),
)  # fmt: skip
tf.config.run_functions_eagerly(settings.eager)  # for two or three steps a compiled graph does not pay

# %% [markdown]
# ## Why constant noise fails (§3.1–3.2)
#
# A helmet hits an obstacle; its acceleration is flat and quiet before the impact, dives, swings back and rattles. GP
# regression has one noise variance for all of it:
#
# $$
# y_n \sim \mathcal N\big(f(x_n), \sigma^2\big), \qquad f \sim \mathcal{GP}(0, k).
# $$
#
# The chained GP gives both parameters a function (Eq. 3.1), with an exponential to keep the variance positive:
#
# $$
# y_n \sim \mathcal N\big(f_1(x_n),\, e^{f_2(x_n)}\big), \qquad f_j \sim \mathcal{GP}(0, k_j) \ \text{independent}.
# $$
#
# Exact inference is out of reach, so $q(\mathbf f, \mathbf u) = \prod_j p(\mathbf f_j \mid \mathbf u_j)\,q(\mathbf u_j)$ with
# $M$ inducing values for each function, trained on the bound (§3.4)
#
# $$
# \mathcal L = \sum_n \mathbb E_{q(f_1)\cdots q(f_J)}\big[\log p(y_n \mid f_1, \dots, f_J)\big] - \sum_j
# \mathrm{KL}\big[q(\mathbf u_j)\,\|\,p(\mathbf u_j)\big].
# $$
#
# Here and wherever a model is needed as an example, training is plain: natural gradients for $q(\mathbf u)$ and Adam for
# the rest, on all the data, with 20 inducing points a function. The comparisons of the thesis, further down, use its own
# optimiser on mini-batches.

# %%
motor = chapter.load("motor")
observations = motor.data
NAME = motor.outputs[0]
HG = likelihoods.HeteroscedasticGaussian
constructors = {
    "constant noise": lambda data: cgp(
        data,
        likelihoods.Gaussian(0.1),
        inducing=20,
        scaling=None,
        start="plain",
    ),
    "CGP": lambda data: cgp(data, HG(), inducing=20, scaling=None, start="plain"),
    "CCGP": lambda data: ccgp(data, HG(), latents=2, inducing=20, scaling=None, start="plain"),
    "ACCGP": lambda data: accgp(data, HG(), latents=2, inducing=20, scaling=None, start="plain"),
}


def trained(model, data, steps=settings.steps):
    fit(model, data, steps=steps, optimizer=NaturalAdam(gamma=0.1, learning_rate=0.02), progress=False)
    return model


whole = {name: trained(constructors[name](observations), observations) for name in ("constant noise", "CGP", "CCGP")}

# %% tags=["hide-input"]
grid = np.linspace(motor.X.min() - 0.1, motor.X.max() + 0.1, 200)[:, None]
(x_mean, y_mean), (x_sd, y_sd) = motor.extras["mean"], motor.extras["sd"]


def milliseconds(x):
    return x_mean + x_sd * x


fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.5), sharey=True)
for ax, name in zip(axes, ("constant noise", "CGP"), strict=True):
    mean, var = (np.asarray(part)[:, 0] for part in whole[name].predict_y(grid, 0))
    bands(ax, milliseconds(grid), y_mean + y_sd * mean, y_sd * np.sqrt(var), label="mean", band_label="mean ± 2 sd")
    ax.plot(milliseconds(motor.X), y_mean + y_sd * motor.Y, "k.", ms=4, label="observed")
    ax.set(title={"CGP": "variance as a function"}.get(name, name), xlabel="time after impact (ms)")
axes[0].set(ylabel="acceleration (g)")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()

# %% [markdown]
# The band on the left is a compromise: far too wide before the impact, too narrow after it. Zone by zone, in the units of the
# thesis (both axes standardised), a 95 % interval should hold about 95 % of the points and be as short as that allows:

# %%
zones = {"flat (−1.75, −1)": (-1.75, -1.0), "swing (−1, 0)": (-1.0, 0.0), "rattle (0, 3)": (0.0, 3.0)}


def by_zone(model):
    table = model.predict(motor.X, 0)
    inside = metrics.interval_coverage
    for zone, (low, high) in zones.items():
        rows = ((motor.X[:, 0] >= low) & (motor.X[:, 0] < high)).nonzero()[0]
        part = table.iloc[rows]
        yield zone, inside(motor.Y[rows, 0], part["q0.025"], part["q0.975"]), float(np.mean(part["sd"]))


pd.DataFrame(
    [
        {"model": name, "zone": zone, "share inside 95 % interval": f"{share:.2f}", "mean sd": f"{sd:.3f}"}
        for name in ("constant noise", "CGP")
        for zone, share, sd in by_zone(whole[name])
    ]
).pivot(index="zone", columns="model").loc[list(zones)]

# %% [markdown]
# ## Likelihoods, links and closed forms (§3.2, Appendices F and I)
#
# The number of functions $J_d$ and the links that turn them into parameters are all a likelihood has to say. Training needs
# $\mathbb E_q[\log p(y \mid \mathbf f)]$ under independent Gaussians $f_j \sim \mathcal N(m_j, v_j)$. Several are in closed form, for
# example
#
# $$
# \begin{aligned}
# \text{heteroscedastic Gaussian:}\quad & -\tfrac12\log 2\pi - \tfrac12 m_2 - \tfrac12 e^{-m_2 + v_2/2}\big[(y - m_1)^2 + v_1\big], \\
# \text{Poisson:}\quad & y m - e^{m + v/2} - \log y! .
# \end{aligned}
# $$
#
# The last column compares the library with an independent computation: SciPy's log densities on a grid of 60
# Gauss–Hermite nodes for each function.

# %%
links = {
    "Gaussian": ("μ = f", "closed", lambda y, f: stats.norm.logpdf(y, f, 1.0)),
    "HeteroscedasticGaussian": (
        "μ = f₁, σ² = exp f₂",
        "closed",
        lambda y, f, g: stats.norm.logpdf(y, f, np.exp(g / 2)),
    ),
    "Bernoulli": ("p = logistic f", "quadrature", lambda y, f: stats.bernoulli.logpmf(y, special.expit(f))),
    "Beta": ("a = exp f₁, b = exp f₂", "partly closed", lambda y, f, g: stats.beta.logpdf(y, np.exp(f), np.exp(g))),
    "Gamma": (
        "shape = exp f₁, rate = exp f₂",
        "partly closed",
        lambda y, f, g: stats.gamma.logpdf(y, np.exp(f), scale=np.exp(-g)),
    ),
    "Exponential": ("rate = exp f", "closed", lambda y, f: stats.expon.logpdf(y, scale=np.exp(-f))),
    "Poisson": ("rate = exp f", "closed", lambda y, f: stats.poisson.logpmf(y, np.exp(f))),
    "ZeroInflatedPoisson": (
        "π = logistic f₁, rate = exp f₂",
        "closed if y > 0",
        lambda y, f, g: np.logaddexp(
            np.where(y == 0, special.log_expit(f), -np.inf), special.log_expit(-f) + stats.poisson.logpmf(y, np.exp(g))
        ),
    ),
}


def by_quadrature(log_density, y, m, v, nodes=60):
    """E log p(y | f) for f_j ~ N(m_j, v_j) independent; y [N], m and v [N, J]."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    mesh = np.meshgrid(*[z] * m.shape[1], indexing="ij")
    weight = np.prod(np.meshgrid(*[w / w.sum()] * m.shape[1], indexing="ij"), axis=0).ravel()
    f = [m[:, j : j + 1] + np.sqrt(v[:, j : j + 1]) * mesh[j].ravel() for j in range(m.shape[1])]
    return log_density(y[:, None], *f) @ weight


def compared(name):
    """The largest difference between the library and SciPy over 30 random posteriors and targets drawn from them."""
    rng = np.random.default_rng(seed)
    likelihood = getattr(likelihoods, name)()
    J = likelihood.latent_dim
    m, v = 0.7 * rng.standard_normal((30, J)), rng.uniform(0.05, 0.5, (30, J))
    y = likelihoods.sample_y(likelihood, tf.constant(m), seed=seed).numpy()
    ours = likelihood.variational_expectations(np.zeros((30, 1)), m, v, y).numpy()
    return J, likelihood.function_labels, np.abs(ours - by_quadrature(links[name][2], y[:, 0], m, v)).max()


checked = {name: compared(name) for name in links}
chapter.table(
    "giraldo-table-i-1",
    pd.DataFrame(
        {
            "J": {name: J for name, (J, _, _) in checked.items()},
            "latent functions": {name: ", ".join(labels) for name, (_, labels, _) in checked.items()},
            "links": {name: link for name, (link, _, _) in links.items()},
            "E log p": {name: form for name, (_, form, _) in links.items()},
            "distance to quadrature": {name: f"{gap:.0e}" for name, (_, _, gap) in checked.items()},
        }
    ).rename_axis("likelihood"),
)

# %% [markdown]
# Appendix I of the thesis lists all but the Exponential and the zero-inflated Poisson. Its Gamma has a *rate*, not a scale, as second
# parameter, and its Exponential has mean $e^{-f}$: the text leaves both open, the released code settles them.
#
# The appendix also gives a rule for the number $Q$ of latent processes of a model with several outputs: one for each function
# ($Q=J$) up to five outputs, three from then on. The library takes it where no number is given. Against the numbers that the
# thesis used:

# %%
APPENDIX = {
    "Gaussian": 1, "Poisson": 1, "Bernoulli": 1, "HeteroscedasticGaussian": 2, "Beta": 2, "Gamma": 2
}  # fmt: skip
T1 = ["HeteroscedasticGaussian", "Beta", "Bernoulli"]
T2 = [*T1, "Gamma", "Exponential"]
outputs_of = {
    "HUMAN": ["Bernoulli", "HeteroscedasticGaussian", "Beta"],
    "LONDON": ["HeteroscedasticGaussian", "Bernoulli"],
    "NAVAL": ["Beta", "Gamma"],
    "TRAFFIC": ["Poisson"] * 4,
    "SARCOS": ["HeteroscedasticGaussian"] * 7,
    "T1": T1,
    "T2": T2,
    "T3": [*T2, "Gaussian", "Beta", "Bernoulli", "Gamma", "Exponential"],
}


def latents_by_rule(names):
    """The number of latent GPs that the library takes for such outputs when none is given."""
    few = np.linspace(0.1, 0.9, 3)[:, None]
    target = {"Bernoulli": np.array([0.0, 1.0, 0.0]), "Poisson": np.array([1.0, 2.0, 0.0])}
    data = MultiOutputData.from_list([(few, target.get(name, few[:, 0])) for name in names])
    model = hetmogp_lmc(
        data,
        [getattr(likelihoods, name)() for name in names],
        inducing=3,
        scaling=None,
        start="plain",
    )
    return model.prior.num_functions, model.prior.W.shape[1]


rule = pd.DataFrame(
    {name: (len(names), *latents_by_rule(names), STUDIES[name]["latents"]) for name, names in outputs_of.items()},
    index=["outputs D", "functions J", "Q by the rule", "Q used in the thesis"],
).T
rule

# %%
as_printed = {name: getattr(likelihoods, name)().latent_dim for name in APPENDIX} == APPENDIX
named = rule.loc[["HUMAN", "LONDON", "NAVAL", "TRAFFIC"], "Q by the rule"].tolist()
broken_by = rule.index[rule["Q by the rule"] != rule["Q used in the thesis"]]
chapter.claim(
    "giraldo-i-c1",
    holds=bool(as_printed and named == [5, 3, 4, 4] and len(broken_by) == 0),
    measured=f"J_d of the library {'as' if as_printed else 'not as'} printed; the rule gives {', '.join(map(str, named))} for HUMAN, "
    "LONDON, NAVAL, TRAFFIC; "
    + "; ".join(
        f"{name} (D = {rule.loc[name, 'outputs D']}, J = {rule.loc[name, 'functions J']}) used "
        f"{rule.loc[name, 'Q used in the thesis']} in place of {rule.loc[name, 'Q by the rule']}"
        for name in broken_by
    ),
    note="The rule describes the real data sets. The toys with up to five outputs break it; so does ACCGP below, which has two "
    "outputs and four functions on two latent processes.",
)

# %% [markdown]
# ## Correlated functions: CCGP (§3.5)
#
# The CGP's functions are independent before seeing data. In the correlated chained GP they are mixtures of $Q$ latent
# processes (Eq. 3.8),
#
# $$
# f_j(x) = \sum_{q=1}^{Q} w_{jq}\,u_q(x), \qquad u_q \sim \mathcal{GP}(0, k_q),
# $$
#
# so that where the mean moves quickly the variance may know about it. In the library all three models are four choices:
#
# | | prior | inducing variables | posterior | likelihood |
# |---|---|---|---|---|
# | `cgp` | independent GPs | points, one set a function | full | any |
# | `ccgp` | LMC with $Q$ latent GPs | points, one set a latent GP | full | any |
# | `accgp` | the same, with weights for two copies | the same | full | any, twice |
#
# ### The product of marginals is not a bound (§3.5–3.6)
#
# In a CCGP $f_1(x)$ and $f_2(x)$ are mixtures of the same $u_q(x)$, so they are correlated under $q$. The objective of the thesis
# (Eq. 3.16) takes the expectation under the *product* of the marginals $q(f_1)q(f_2)$ all the same. For the heteroscedastic Gaussian the
# exact expectation is known: with $c = \mathrm{cov}_q(f_1, f_2)$,
#
# $$
# \mathbb E_q \log p = -\tfrac12\log2\pi - \tfrac12 m_2 - \tfrac12 e^{-m_2 + v_2/2}\big[(y - m_1 + c)^2 + v_1\big].
# $$
#
# On the CCGP fitted to all the motorcycle data, against two-dimensional quadrature under the joint $q(f_1, f_2)$:

# %%
model = whole["CCGP"]
likelihood = model.likelihood.likelihoods[0]
F = model.predict_f(motor.X, full_output_cov=True)
m, cov, y = F.mean.numpy(), F.var.numpy(), observations[0].Y
product = likelihood.variational_expectations(motor.X, m, np.diagonal(cov, axis1=1, axis2=2), y).numpy().sum()
joint = likelihood.variational_expectations_joint(m, cov, y).numpy().sum()

z, w = np.polynomial.hermite_e.hermegauss(40)
pairs, weights = np.stack(np.meshgrid(z, z), axis=-1).reshape(-1, 2), np.outer(w, w).ravel() / w.sum() ** 2
f = m[:, None] + pairs @ np.linalg.cholesky(cov).transpose(0, 2, 1)
by_grid = (stats.norm.logpdf(y, f[..., 0], np.exp(f[..., 1] / 2)) @ weights).sum()
correlation = cov[:, 0, 1] / np.sqrt(cov[:, 0, 0] * cov[:, 1, 1])
pd.DataFrame(
    {
        "data term of the objective (nats)": [
            f"{product:.3f}",
            f"{joint:.3f}",
            f"{by_grid:.3f}",
        ],
        "correlation of f₁ and f₂ under q": ["0 (assumed)", f"{correlation.min():.2f} to {correlation.max():.2f}", ""],
    },
    index=["product of marginals (Eq. 3.16)", "joint, closed form", "joint, quadrature"],
)

# %% [markdown]
# The difference is small here, but it can go either way, and that matters: an objective that may exceed the evidence is no
# lower bound. The smallest example has one observation $y$ and one latent $u \sim \mathcal N(0, 1)$ with $f_1 = f_2 = u$. The evidence
# is a one-dimensional integral, and both objectives can be maximised over $q(u) = \mathcal N(m, s^2)$ on a fine grid.

# %%
y_one = np.linspace(-4.0, 8.0, 61)
z, w = np.polynomial.hermite_e.hermegauss(150)
evidence = special.logsumexp(stats.norm.logpdf(y_one[:, None], z, np.exp(z / 2)), b=w / w.sum(), axis=1)

m_grid, s2_grid = np.meshgrid(np.linspace(-4, 5, 361), np.geomspace(0.01, 1.5, 200))
kl = 0.5 * (s2_grid + m_grid**2 - 1 - np.log(s2_grid))


def best(y, covariance):
    """The largest value of the objective over q(u), with the given covariance of f₁ and f₂ in place of s²."""
    residual = (y - m_grid + covariance) ** 2 + s2_grid
    data_term = -0.5 * (np.log(2 * np.pi) + m_grid + np.exp(-m_grid + s2_grid / 2) * residual)
    return (data_term - kl).max()


over = {
    "product of marginals": np.array([best(y, 0.0) for y in y_one]) - evidence,
    "joint": np.array([best(y, s2_grid) for y in y_one]) - evidence,
}

# %%
with chapter.figure(
    "giraldo-finding-product",
    figsize=(7.2, 3.4),
    alt="Best objective minus log evidence against the observation: the curve of the product of marginals rises above "
    "zero for most positive observations, the curve of the joint stays below zero.",
) as ax:
    for (name, gap), colour in zip(over.items(), (COLOURS["red"], COLOURS["blue"]), strict=True):
        ax.plot(y_one, gap, color=colour, label=name)
    ax.axhline(0, color="black", lw=1)
    ax.fill_between(y_one, 0, 0.5, color=COLOURS["red"], alpha=0.08, lw=0)
    ax.text(7.9, 0.47, "above the evidence: not a bound", ha="right", va="top")
    ax.set(xlabel="observation y", ylabel="best objective − log p(y)  (nats)", xlim=(-4, 8), ylim=(-1.3, 0.5))
    ax.legend(loc="lower right", title="expectation under")

# %%
excess = {name: gap.max() for name, gap in over.items()}
chapter.claim(
    "giraldo-3-f1",
    holds=excess["product of marginals"] > 1e-6 >= excess["joint"],
    measured=f"largest excess over the evidence: {excess['product of marginals']:+.3f} nats under the product, "
    f"{excess['joint']:+.3f} under the joint",
)

# %% [markdown]
# With the joint the objective stays below the evidence everywhere; with the product it is above it for most positive $y$. For a
# CGP the two agree, because its functions are independent under $q$: its objective *is* a bound. Comparing a CCGP
# with a CGP by this objective is therefore not fair to the CGP; compare predictions instead.
#
# ## Two copies of one output: ACCGP (§3.9)
#
# ACCGP trains a CCGP on *two copies* of its output, each with its own mixing weights and, for fairness, half of every
# mini-batch ($A$ and $B$ are drawn independently):
#
# $$
# \hat{\mathcal L} = \frac N{|A|}\sum_{a\in A}\mathbb E\log p(y_a\mid \mathbf f_1(x_a)) + \frac N{|B|}\sum_{b\in B}\mathbb E
# \log p(y_b\mid \mathbf f_2(x_b)) - \sum_q\mathrm{KL}\big[q(\mathbf u_q)\,\|\,p(\mathbf u_q)\big].
# $$
#
# The thesis insists that this is not the single-output bound written as two sums. It is right, and the reason is plain when
# both copies get the same weights: the data term doubles, the KL does not.

# %%
single = whole["CCGP"]
double = constructors["ACCGP"](observations)
values = gpflow.utilities.read_values(single)
values[".prior.W"] = np.vstack([values[".prior.W"]] * 2)
gpflow.utilities.multiple_assign(double, values)

data_single, data_double = (float(tf.reduce_sum(each.data_terms(observations))) for each in (single, double))
kl_single, kl_double = float(single.kl()), float(double.kl())
halved = constructors["CCGP"](observations)
halved.kl_weight = 0.5
gpflow.utilities.multiple_assign(halved, gpflow.utilities.read_values(single))
chapter.claim(
    "giraldo-3-c10",
    holds=bool(
        abs(data_double - 2 * data_single) <= 1e-10 * abs(data_double)
        and abs(kl_double - kl_single) <= 1e-10 * kl_single
        and double.prior.W.shape[0] == 2 * single.prior.W.shape[0]
    ),
    measured=f"data terms {data_single:.6f} and {data_double:.6f} (2× to {abs(data_double - 2 * data_single):.0e}), KL "
    f"{kl_single:.6f} and {kl_double:.6f}; mixing weights {tuple(single.prior.W.shape)} and {tuple(double.prior.W.shape)}",
    note="An identity of the two objectives, whatever the data.",
)

# %% [markdown]
# The objective counts every observation twice. Its value cannot be compared with that of a CCGP, and it is not a bound. What it is
# can be read off: with equal weights, half of it is the objective of a CCGP *whose KL counts half*, that is, a tempered
# posterior. The library has a weight for that:

# %%
pd.DataFrame(
    {
        "objective (nats)": {
            "half of ACCGP's, equal weights": f"{float(double.elbo(observations)) / 2:.10f}",
            "CCGP with KL × ½": f"{float(halved.elbo(observations)):.10f}",
            "CCGP": f"{float(single.elbo(observations)):.10f}",
        }
    }
)

# %% [markdown]
# So a fourth model goes into the comparisons below: the CCGP with half the KL. If it does what ACCGP does, then what matters about the
# augmentation is the weight of the data, not the second set of mixing weights.
#
# ## Fully natural gradients (§3.6–3.8, Appendix G)
#
# The thesis trains with FNG: natural gradients for the posterior, and variational optimisation (chapter 2) for everything else.
# All hyper-parameters and inducing inputs $\theta$ get an exploratory distribution $q(\theta)=\mathcal N(\mu,\mathrm{diag}\,\sigma^2)$
# with a penalty $\mathrm{KL}[q(\theta)\|\mathcal N(0,\lambda_1^{-1}\mathbf I)]$. A step draws one $\theta\sim q(\theta)$, takes the
# gradient $g$ of the objective there, and moves (Eqs. 3.20–3.25)
#
# $$
# \begin{aligned}
# \mathbf V_{t+1}^{-1} &= \mathbf V_t^{-1} + 2\beta\nabla_{\mathbf V}\tilde{\mathcal L}, &
# \mathbf m_{t+1} &= \mathbf m_t - \beta\mathbf V_{t+1}\nabla_{\mathbf m}\tilde{\mathcal L} + \upsilon\mathbf V_{t+1}\mathbf V_t^{-1}(\mathbf m_t-\mathbf m_{t-1}),\\
# \mathbf p_{t+1} &= (1-\alpha)\,\mathbf p_t + \alpha\, g\circ g, &
# \mu_{t+1} &= \mu_t - \alpha\,\frac{g+\lambda_1\mu_t}{r(\mathbf p_{t+1})} + \gamma\,\frac{r(\mathbf p_t)}{r(\mathbf p_{t+1})}(\mu_t-\mu_{t-1}),
# \end{aligned}
# $$
#
# with $\sigma^2=1/(\mathbf p+\lambda_1)$. There are three versions of it: $r(\mathbf p)=\mathbf p+\lambda_1$ as derived (*literal*),
# $r(\mathbf p)=\sqrt{\mathbf p}+\lambda_1$ as recommended in Appendix G (*root*), and what the author's code runs, Adam's
# recursion with the noise added (*Vadam*, {cite}`khan2018vadam`). The thesis states no constants and the code
# none for the data of this chapter; we take those of its toys: step sizes of 0.005 for everything, $\lambda_1=1$, and
# $\mathbf p_0=s_0$ between $10^4$ for one input and 10 for six and more.
#
# One function makes every fit of the comparisons: model, start values and optimiser as in the released code.


# %%
LIKELIHOODS = {"HG": "HeteroscedasticGaussian", "Bt": "Beta", "Ga": "Gamma"}
KL_HALF = "CCGP, KL × ½"


def chained_data(data, likelihood, source):
    """Standardised targets for the Gaussian; between 0 and 1 for Beta and Gamma, which the thesis leaves open."""
    stand_in = "only" if source == "stand-in" else "forbid"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        if data != "motor":
            return datasets.load(data, likelihood=LIKELIHOODS[likelihood], stand_in=stand_in).data
        whole = datasets.load("motor", stand_in=stand_in)
    if likelihood == "HG":
        return whole.data
    Y = unit_interval(whole.Y, 1e-5, 0.999 if likelihood == "Bt" else 1.0)[0]
    return MultiOutputData.from_list([(whole.X, Y)], names=whole.outputs)


def chained_fit(
    train, model, likelihood, start, steps, *, batch_size=100, inducing=20, optimizer="FNG", rule="vadam", rate=0.005,
    look=None, every=None,
):  # fmt: skip
    """A model trained from one start as in the author's code; `look(model)` is kept every few steps."""
    kind = getattr(likelihoods, LIKELIHOODS[likelihood])()
    fitted = heterogeneous_model("CCGP" if model == KL_HALF else model, train, [kind], latents=2, inducing=inducing)
    if model == KL_HALF:
        fitted.kl_weight = 0.5
    author_start(fitted, train.X, width=0.1 if train.input_dim == 1 else 1.0, seed=start)
    constants = author_constants("chapter 3", train.input_dim)
    moves = optimiser(
        optimizer, rate=rate, rule=rule, start=constants["start"], penalty=constants["penalty"], seed=start
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a fit that failed says so in its status
        history = fit(
            fitted, train, steps=steps, optimizer=moves, batch_size=batch_size, seed=start, progress=False,
            monitor=None if look is None else lambda: look(fitted), every=every or steps,
        )  # fmt: skip
    return fitted, moves, history


def objective(model, rows):
    """The negative objective; infinite where it cannot be evaluated."""
    try:
        return float(model.training_loss(rows))
    except tf.errors.InvalidArgumentError:
        return np.inf


# %% [markdown]
# ### Four optimisers (Figure 3.1)
#
# A CCGP with two latent processes, 20 inducing points and mini-batches of 100 rows, on three regression tables; all
# optimisers begin at the same start values. The objective is evaluated on all training rows, at the mean of $q(\theta)$. SGD has the
# step size of the released code, $10^{-15}$.


# %%
def descent(source, data, likelihood, optimizer, start, steps, every, rule="vadam", rate=0.005):
    """The objective of a CCGP along one training run, and what became of weights and widths."""
    train, _ = chained_data(data, likelihood, source).split(test=0.25, seed=0)

    def look(model):
        return {"nelbo": objective(model, train)}

    model, moves, history = chained_fit(
        train, "CCGP", likelihood, start, steps, optimizer=optimizer, rule=rule, rate=rate, look=look, every=every
    )
    nelbo = [one["nelbo"] for one in history.monitored]
    nelbo += [nelbo[-1]] * (steps // every + 1 - len(nelbo))
    return {
        "nelbo": nelbo,
        "status": history.status,
        "weight": float(np.abs(model.prior.W).max()),
        "lengthscale": float(np.median([kernel.lengthscales for kernel in model.prior.kernels.kernels])),
        "variance": float(np.max(moves.rest.deviation) ** 2) if optimizer == "FNG" else 0.0,
    }


tables = {name: chapter.load(name) for name in ("yacht", "boston", "concrete")}
source_of = {"motor": motor.source, **{name: table.source for name, table in tables.items()}}
shown_as = {"boston": "Bt", "yacht": "HG", "concrete": "Ga"}
starts_of = settings.descent["starts"]
every = settings.descent["every"]


def descents(points, steps=settings.descent["steps"]):
    """The runs of the points, each from every start of its data set; a row a run."""
    each = [
        dict(
            source=source_of[point["data"]], likelihood=shown_as[point["data"]], start=start, steps=steps,
            every=min(every, steps), **point,
        )
        for point in points
        for start in range(seed, seed + starts_of[point["data"]])
    ]  # fmt: skip
    return sweep(descent, each, name="giraldo-3-descent", workers=settings.workers, progress=False)


METHODS = {"SGD": "blue", "Adam": "orange", "ADAD": "green", "FNG": "red"}
runs = descents([dict(data=data, optimizer=name) for data in shown_as for name in METHODS])
step = np.arange(0, settings.descent["steps"] + 1, every)
curves = {key: np.array(part["nelbo"].tolist()) for key, part in runs.groupby(["data", "optimizer"])}

# %% tags=["hide-input"]
full_name = {"HG": "heteroscedastic Gaussian", "Bt": "Beta", "Ga": "Gamma"}
with chapter.figure(
    "giraldo-fig-3-1",
    nrows=2,
    ncols=2,
    figsize=(8.4, 6.6),
    data=list(tables.values()),
    alt="Negative objective against the step for SGD, Adam, ADAD and FNG on boston, yacht and concrete: mean over the starts, "
    "and each start as a thin line.",
) as axes:
    for ax, (data, likelihood) in zip(axes.flat, shown_as.items(), strict=False):
        for name, colour in METHODS.items():
            found = curves[data, name]
            if name != "SGD" and len(found) > 1:
                ax.plot(step, found.T, color=COLOURS[colour], lw=0.8, alpha=0.55)
            ax.plot(step, found.mean(0), color=COLOURS[colour], ls="--" if name == "SGD" else "-")
        low = min(curves[data, name].min() for name in METHODS)
        top = max(curves[data, name][:, 0].max() for name in METHODS)
        ax.set(
            title=f"{data}, {full_name[likelihood]}",
            xlabel="step",
            ylabel="negative objective (nats)",
            ylim=(low - 0.08 * (top - low), top + 0.08 * (top - low)),
        )
    axes[1, 1].axis("off")
    lines = [
        Line2D([], [], color=COLOURS[colour], ls="--" if name == "SGD" else "-", label=name)
        for name, colour in METHODS.items()
    ]
    handles = [*lines, Line2D([], [], color=COLOURS["grey"], lw=0.8, label="one start")]
    counts = ", ".join(f"{name} {count}" for name, count in starts_of.items())
    axes[1, 1].legend(handles=handles, loc="center", title=f"mean over starts\n({counts})", fontsize=12.5)

# %%
middle = len(step) // 2
end = pd.DataFrame(
    {key: found.mean(0)[[0, middle, -1]] for key, found in curves.items()}, index=["start", "half", "end"]
).T
end.index.names = ["data", "optimiser"]


def leader(data, when):
    return str(end.loc[data, when].idxmin())


yacht_drop = end.loc[("yacht", "FNG"), "start"] - end.loc[("yacht", "FNG"), "end"]
ahead = end.loc["yacht", "end"].drop("FNG").min() - end.loc[("yacht", "FNG"), "end"]


def scale(*names, steps=settings.descent["steps"]):
    """The scale of the runs, for notes: starts and steps."""
    counts = ", ".join(f"{starts_of[name]}{' of 5' if starts_of[name] < 5 else ''} ({name})" for name in names)
    return f"Mean over starts: {counts}; {steps} steps of size 0.005."


def found_at(data, when):
    return ", ".join(f"{name} {end.loc[(data, name), when]:.0f}" for name in METHODS)


asleep = runs[(runs["data"] == "boston") & (runs["optimizer"] == "FNG")]["weight"].median()
chapter.claim(
    "giraldo-3-c1",
    holds=bool(
        all(leader(data, when) == "FNG" for data in ("boston", "yacht") for when in ("half", "end"))
        and ahead >= 0.1 * yacht_drop > 0
    ),
    measured=f"negative objective at the end: boston {found_at('boston', 'end')}; yacht {found_at('yacht', 'end')}; at half: "
    f"boston {found_at('boston', 'half')}; yacht {found_at('yacht', 'half')}",
    note=f"{scale('boston', 'yacht')} Constants of the released code's toys. SGD at its step size of 1e-15 does not move. Largest weight of FNG's models on boston at "
    f"the end (median): {asleep:.3f}.",
)

# %%
drop = end.loc[("concrete", "Adam"), "start"] - end.loc["concrete", "end"].min()
at_end = end.loc["concrete", "end"]
chapter.claim(
    "giraldo-3-c2",
    holds=bool(
        at_end["Adam"] <= at_end["FNG"] + 0.05 * drop
        and min(at_end["ADAD"], at_end["SGD"]) > max(at_end["Adam"], at_end["FNG"])
    ),
    measured=f"negative objective at the end: {found_at('concrete', 'end')}; at the start "
    f"{end.loc[('concrete', 'Adam'), 'start']:.0f}",
    note=scale("concrete"),
)

# %% [markdown]
# Adam, with the same step size and none of the machinery, is ahead of FNG. The start value $s_0$ has to do with it. It is there to set
# the width of $q(\theta)$, but it sits in the denominator of the step too: until the squared gradients have outgrown it, every
# parameter moves in proportion to its *bare* gradient. The weights have large gradients and can get to zero before lengthscales and
# inducing inputs, which have small ones, have moved; and at $W=0$, $\mathbf m=0$ their gradients vanish. HYB is FNG without
# the exploratory distribution (natural gradients and plain Adam, both at 0.005) and has no such start value. On yacht, start by start:

# %%
hyb_runs = descents([dict(data="yacht", optimizer="HYB")])
reasons = pd.concat([runs[(runs["data"] == "yacht") & runs["optimizer"].isin(["FNG", "Adam"])], hyb_runs])
reasons = reasons.assign(end=[one[-1] for one in reasons["nelbo"]]).set_index(["start", "optimizer"]).sort_index()
pd.DataFrame(
    {
        "negative objective": reasons["end"].map("{:.0f}".format),
        "largest |w|": reasons["weight"].map("{:.3f}".format),
        "median lengthscale": reasons["lengthscale"].map("{:.2f}".format),
        "largest variance of q(θ)": reasons["variance"].map(lambda value: f"{value:.2f}" if value else ""),
    }
).rename_axis(["start", "optimiser"])

# %% [markdown]
# A start from which FNG ends with weights near zero has found the model that ignores its inputs. (On boston, where the fit takes off
# late, that is where it goes at the long profile; a Beta output with $f_1=f_2=0$ is uniform and its objective zero.) The printed
# Table 3.2 has the like: 1.43 for CCGP on boston with Gaussian noise is what a constant Gaussian scores on standardised targets, 1.419.
# The last column is a second effect. Where gradients are small $s$ decays from $s_0$, so the search distribution
# gets *wider* as training goes on, up to $1/\lambda_1=1$; after some two thousand steps (the paper profile) the objective rises again.
#
# ### Three rules (Appendix G)


# %%
RULES = {
    "vadam": ("Vadam (as run)", "red", "-"),
    "root": ("root", "purple", "--"),
    "literal": ("literal", "brown", ":"),
}
other_rules = descents(
    [dict(data=data, optimizer="FNG", rule=rule) for data in ("boston", "yacht") for rule in ("root", "literal")]
)
by_rule = {key: np.array(part["nelbo"].tolist()) for key, part in other_rules.groupby(["data", "rule"])}
by_rule |= {(data, "vadam"): curves[data, "FNG"] for data in ("boston", "yacht")}
slow_rate = 0.0005
slow = [(data, rule) for data in settings.descent["slow_on"] for rule in ("root", "literal")]
if slow:
    slower = descents([dict(data=data, optimizer="FNG", rule=rule, rate=slow_rate) for data, rule in slow])
    slow_end = slower.assign(end=[one[-1] for one in slower["nelbo"]]).groupby(["data", "rule"])["end"].mean()

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.6))
for ax, data in zip(axes, ("boston", "yacht"), strict=True):
    for key, (label, colour, dashes) in RULES.items():
        found = by_rule[data, key]
        ax.plot(step, found.mean(0), color=COLOURS[colour], ls=dashes, label=label)
        if len(found) > 1:
            ax.plot(step, found.T, color=COLOURS[colour], ls=dashes, lw=0.8, alpha=0.55)
    ax.set_yscale("symlog", linthresh=100)
    ax.set_ylim(bottom=min(0, ax.get_ylim()[0]))
    ax.set(title=data, xlabel="step")
axes[0].set(ylabel="negative objective (nats)")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()

# %%
final = {key: found[:, -1].mean() for key, found in by_rule.items()}
root_ahead = {
    data: step[by_rule[data, "root"].mean(0) <= by_rule[data, "literal"].mean(0)].max() for data in ("boston", "yacht")
}
chapter.claim(
    "giraldo-g-c1",
    holds=bool(all(final[data, "root"] <= final[data, "literal"] for data in ("boston", "yacht"))),
    measured="; ".join(
        f"{data}: root {final[data, 'root']:.3g}, literal {final[data, 'literal']:.3g}" for data in ("boston", "yacht")
    ),
    note=f"Negative objective at the end; the square-root rule is ahead until step {root_ahead['boston']} on boston and "
    f"{root_ahead['yacht']} on yacht, so that the verdict depends on the budget. {scale('boston', 'yacht')} That is the step size of the released code, which runs "
    "neither rule."
    + (f" At {slow_rate}: " if slow else "")
    + ", ".join(f"{data} {rule} {slow_end[data, rule]:.0f}" for data, rule in slow),
    data=[tables["boston"], tables["yacht"]],
)

# %% [markdown]
# A square root in the denominator makes steps longer by $\sqrt{\mathbf p}$ where gradients are large. That is faster where the literal
# rule crawls, for the first hundred steps, and then it diverges first; at the long profile the literal rule has followed. Which one
# is ahead at the end is a question of step size and budget. That both diverge at 0.005 may be why the code runs neither.
#
# ## The motorcycle data (§3.10, Figures 3.2 and 3.3, Table 3.1)
#
# The thesis compares the three models on half and on three quarters of the data, trained by FNG on mini-batches of 20 points (10 a
# copy for ACCGP). One split is an anecdote on 133 points, so we draw as many as the profile has room for and show the first; of several starts,
# the one with the best training objective is kept. Beside them stand the same models where training has converged: all data, natural gradients with
# step size 0.1, Adam with 0.02, from k-means inducing inputs.


# %%
def motorcycle_scores(model, train, test):
    """NLPD, coverage of 95 % intervals, and predictions on the grid; for both copies of an augmented model."""
    asked = {"train": train, "test": test}
    if len(model.names) == 2:  # ACCGP has a copy of its output
        asked = {part: twofold(data) for part, data in asked.items()}
    densities = {part: model.predict_log_density(data) for part, data in asked.items()}
    drawn = [[np.asarray(part)[:, 0] for part in model.predict_y(grid, d)] for d in range(len(model.names))]
    intervals = [model.predict(test.inputs(0), d) for d in range(len(model.names))]
    sds = [np.sqrt(var) for _, var in drawn]
    return {
        "nelbo": objective(model, train),
        **{part: [metrics.nlpd(np.asarray(found[name])) for name in model.names] for part, found in densities.items()},
        "coverage": [metrics.interval_coverage(test[0].Y[:, 0], one["q0.025"], one["q0.975"]) for one in intervals],
        "mean": [mean for mean, _ in drawn],
        "sd": sds,
        "zones": [[sd[(grid[:, 0] >= low) & (grid[:, 0] < high)].mean() for low, high in zones.values()] for sd in sds],
    }


def by_fng(source, model, share, split, start, steps):
    """One of the thesis's fits of the motorcycle data."""
    train, test = chained_data("motor", "HG", source).split(test=share, seed=split)
    fitted, _, history = chained_fit(train, model, "HG", start, steps, batch_size=20)
    return {**motorcycle_scores(fitted, train, test), "status": history.status}


def to_convergence(source, model, share, split, steps):
    """The same model trained plainly, on all the data."""
    train, test = chained_data("motor", "HG", source).split(test=share, seed=split)
    fitted = constructors["CCGP" if model == KL_HALF else model](train)
    if model == KL_HALF:
        fitted.kl_weight = 0.5
    return motorcycle_scores(trained(fitted, train, steps), train, test)


held_out = {"50/50": 0.5, "75/25": 0.25}
chained = ["CGP", "CCGP", "ACCGP", KL_HALF]
options = settings.motor
splits = range(seed, seed + options["splits"])
fng = sweep(
    by_fng,
    [
        dict(
            source=motor.source,
            model=name,
            share=share,
            split=split,
            start=split + 1000 * number,
            steps=options["steps"],
        )
        for share in held_out.values()
        for split in splits
        for name in chained
        for number in range(options["starts"])
    ],
    name="giraldo-3-motorcycle",
    workers=settings.workers,
    progress=False,
)
exact = sweep(
    to_convergence,
    [
        dict(source=motor.source, model=name, share=held_out[each], split=split, steps=options["exact_steps"])
        for each in options["exact_on"]
        for split in range(seed, seed + options["exact_splits"])
        for name in ["constant noise", *chained]
    ],
    name="giraldo-3-converged",
    workers=settings.workers,
    progress=False,
)
kept = fng.loc[fng.groupby(["share", "split", "model"])["nelbo"].idxmin()]

# %% tags=["hide-input"]
panel_names = {"CGP": ("CGP", 0), "CCGP": ("CCGP", 0), "ACCGP, $y_1$": ("ACCGP", 0), "ACCGP, $y_2$": ("ACCGP", 1)}
for identifier, split in {"giraldo-fig-3-2": "50/50", "giraldo-fig-3-3": "75/25"}.items():
    first = kept[(kept["share"] == held_out[split]) & (kept["split"] == seed)].set_index("model")
    train, test = observations.split(test=held_out[split], seed=seed)
    with chapter.figure(
        identifier,
        nrows=2,
        ncols=2,
        figsize=(8.4, 7.0),
        sharex=True,
        sharey=True,
        data=motor,
        alt=f"Predictions of CGP, CCGP and both copies of ACCGP on the motorcycle data, split {split}, with bands of two standard "
        "deviations, training and test points.",
    ) as panels:
        for ax, (title, (name, copy)) in zip(panels.flat, panel_names.items(), strict=True):
            mean, sd = np.array(first.loc[name, "mean"][copy]), np.array(first.loc[name, "sd"][copy])
            ax.plot(grid, mean, color=COLOURS["blue"], label="mean")
            ax.plot(grid, mean + 2 * sd, "--", color=COLOURS["blue"], lw=1.3, label="mean ± 2 sd")
            ax.plot(grid, mean - 2 * sd, "--", color=COLOURS["blue"], lw=1.3)
            ax.plot(train.inputs(0), train[0].Y, "kx", ms=5, label="train")
            ax.plot(test.inputs(0), test[0].Y, "o", ms=4, color=COLOURS["red"], label="test")
            ax.set(title=f"{title}: {split} split", ylim=(-5.0, 4.4))
            ax.axvspan(-1.75, -1.0, color="#E4E4E4", lw=0, zorder=0, label="flat zone")
            ax.axvspan(-1.0, 0.0, color="#F3F3F3", lw=0, zorder=0, label="swing zone")
        for ax in panels[1]:
            ax.set(xlabel="time (standardised)")
        for ax in panels[:, 0]:
            ax.set(ylabel="acceleration (standardised)")
        panels[0, 0].figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)

# %%
published = pd.read_csv(data_folder() / "published" / "giraldo-table-3-1.csv").set_index(["split", "model"])


def long_form(frame):
    """A row for each copy: split, model (y1 and y2 for ACCGP), train and test NLPD, coverage."""
    name_of_share = {share: name for name, share in held_out.items()}
    return pd.DataFrame(
        [
            {
                "split": name_of_share[row.share],
                "model": f"ACCGP y{copy + 1}" if row.model == "ACCGP" else row.model,
                "seed": row.split,
                "train": row.train[copy],
                "test": row.test[copy],
                "coverage": row.coverage[copy],
                "zones": row.zones[copy],
            }
            for row in frame.itertuples()
            for copy in range(2 if row.model == "ACCGP" else 1)
        ]
    )


rows_fng, rows_exact = long_form(kept), long_form(exact)


def with_spread(frame, part):
    """Mean and standard deviation over the splits, as text."""
    found = frame.groupby(["split", "model"])[part].agg(["mean", "std"])
    return found.apply(
        lambda row: f"{row['mean']:.3f}" + ("" if np.isnan(row["std"]) else f" ± {row['std']:.3f}"), axis=1
    )


order = ["constant noise", "CGP", "CCGP", "ACCGP y1", "ACCGP y2", KL_HALF]
table = pd.DataFrame(
    {
        f"{how}: {part}": with_spread(frame, part)
        for how, frame in (("FNG", rows_fng), ("converged", rows_exact))
        for part in ("train", "test")
    }
).join(published.add_prefix("published: "))
table = table.reindex(pd.MultiIndex.from_product([held_out, order], names=["split", "model"]))
chapter.table("giraldo-table-3-1", table, data=motor)

# %% [markdown]
# Read the training columns first. Converged, CGP and CCGP fit far better than FNG leaves them, and better than printed: the printed
# scores are those of models that had not arrived. Within the same number of steps ACCGP gets further than CCGP: twice the weight of the
# data is twice the pull away from the prior. The CCGP with half the KL, which has one output and one set of weights, goes the same way.

# %%
test_means = rows_fng.groupby(["split", "model"])["test"].mean()
half = test_means["50/50"]
near = {
    name: abs(half[name] - published.loc[("50/50", name), "test"]) for name in ("CGP", "CCGP", "ACCGP y1", "ACCGP y2")
}
seeds = f"{options['splits']} of 5 split seeds" if options["splits"] < 5 else f"{options['splits']} split seeds"
runs_note = f"{seeds}, best of {options['starts']} start{'s' if options['starts'] > 1 else ''} by training objective, {options['steps']} steps"
failed = int(((fng["status"] != "finished") | (fng["nelbo"] > 1000)).sum())
exact_half = rows_exact.groupby(["split", "model"])["test"].mean()["50/50"]
chapter.claim(
    "giraldo-3-c3",
    holds=bool(half["CGP"] > half["CCGP"] > half["ACCGP y1"] and (not settings.levels or max(near.values()) <= 0.2)),
    measured=f"mean test NLPD: CGP {half['CGP']:.3f}, CCGP {half['CCGP']:.3f}, ACCGP {half['ACCGP y1']:.3f} / "
    f"{half['ACCGP y2']:.3f}; distance to print up to {max(near.values()):.2f}",
    note=f"FNG, {runs_note}; {failed} of {len(fng)} runs diverged. {KL_HALF} scores {half[KL_HALF]:.3f}. Converged "
    f"({options['exact_splits']} split{'s' if options['exact_splits'] > 1 else ''}): CGP {exact_half['CGP']:.3f}, CCGP "
    f"{exact_half['CCGP']:.3f}, ACCGP {exact_half['ACCGP y1']:.3f}, {KL_HALF} {exact_half[KL_HALF]:.3f}.",
    data=motor,
)

# %% [markdown]
# With three quarters of the data for training, the text calls ACCGP the best model again. The printed table does not:

# %%
three_quarters = published.loc["75/25"]
chapter.claim(
    "giraldo-3-c4",
    holds=bool(three_quarters["test"].idxmin().startswith("ACCGP")),
    measured=f"lowest printed test NLPD: {three_quarters['test'].idxmin()} ({three_quarters['test'].min():.3f}); lowest "
    f"training NLPD: {three_quarters['train'].idxmin()} ({three_quarters['train'].min():.3f})",
    note="Checked on the printed table. It holds for the training NLPD only; on test data CCGP is lower.",
)

# %% [markdown]
# The widths of the bands, zone by zone: medians over the splits of the mean predictive standard deviation.

# %%
widths = pd.concat(
    {
        how: pd.DataFrame(frame["zones"].tolist(), columns=list(zones))
        .assign(split=frame["split"], model=frame["model"])
        .groupby(["split", "model"])
        .median()
        for how, frame in (("FNG", rows_fng), ("converged", rows_exact))
    },
    axis=1,
)
widths.reindex(pd.MultiIndex.from_product([held_out, order])).map(lambda v: "–" if np.isnan(v) else f"{v:.3f}")

# %%
quiet = list(zones)[:2]
ordered_zones = {
    (split, zone): widths["FNG"].loc[(split, "ACCGP y1"), zone]
    < widths["FNG"].loc[(split, "CCGP"), zone]
    < widths["FNG"].loc[(split, "CGP"), zone]
    for split in held_out
    for zone in quiet
}
chapter.claim(
    "giraldo-3-c5",
    holds=bool(all(ordered_zones.values())),
    measured="; ".join(
        f"{split}, {zone.split()[0]}: CGP {widths['FNG'].loc[(split, 'CGP'), zone]:.3f}, CCGP "
        f"{widths['FNG'].loc[(split, 'CCGP'), zone]:.3f}, ACCGP {widths['FNG'].loc[(split, 'ACCGP y1'), zone]:.3f}"
        for split, zone in ordered_zones
    ),
    note=f"FNG, median over {runs_note}. Converged, flat zone at 50/50: CGP "
    f"{widths['converged'].loc[('50/50', 'CGP'), quiet[0]]:.3f}, CCGP {widths['converged'].loc[('50/50', 'CCGP'), quiet[0]]:.3f}, "
    f"ACCGP {widths['converged'].loc[('50/50', 'ACCGP y1'), quiet[0]]:.3f}.",
    data=motor,
)

# %% [markdown]
# ### Are the tight bands right?
#
# A tempered posterior is sharper than the data warrant. Whether that does harm shows in the share of *test* points that fall into their 95 %
# intervals, and in the test NLPD where training has converged:

# %%
harm = pd.concat(
    {
        how: frame.groupby(["split", "model"])[["coverage", "train", "test"]].mean()
        for how, frame in (("FNG", rows_fng), ("converged", rows_exact))
    },
    axis=1,
)
harm = harm.reindex(pd.MultiIndex.from_product([held_out, ["CGP", "CCGP", "ACCGP y1", KL_HALF]]))
pd.DataFrame(
    {
        f"{how}: {what}": harm[how][part].map(form.format, na_action="ignore")
        for how in ("FNG", "converged")
        for part, what, form in (
            ("coverage", "test points in 95 % interval", "{:.2f}"),
            ("test", "test NLPD", "{:.3f}"),
        )
    }
).rename_axis(["split", "model"]).fillna("–")

# %% [markdown]
# FNG stops early, and early stopping hides the cost: intervals there are too wide rather than too narrow, and a sharper posterior
# repairs that. Run to convergence, ACCGP and the CCGP with half the KL have by far the lowest training scores and gain nothing on test
# data. Over the five splits of the long profile their intervals hold fewer test points than those of CCGP, and all of them
# fewer than 95 %.
#
# ## Seven data sets, three likelihoods (Table 3.2)
#
# Table 3.2 has 21 rows (three likelihoods, seven data sets) for each of two sizes of the inducing set; all models trained by FNG, on
# mini-batches of 100. Four claims are about it. We run what the profile has room for: without CTslice, which has to be downloaded,
# and with the start chosen by the training objective, never by test data. (The thesis keeps "the best" of fifteen.)
# Beta and Gamma targets are scaled to the unit interval, which the thesis leaves open.


# %%
def table_cell(source, data, likelihood, model, inducing, start, steps, most_rows):
    """One fit of Table 3.2; large test sets are scored on a random part."""
    train, test = chained_data(data, likelihood, source).split(test=0.25, seed=0)
    fitted, _, history = chained_fit(train, model, likelihood, start, steps, inducing=inducing)
    rows = (fitted if model == "ACCGP" else train).batches
    some = np.random.default_rng(0).permutation(len(test.X))[:most_rows]
    batch = rows(train, most_rows, 1)(0) if model == "ACCGP" else rows(most_rows, 1)(0)
    density = fitted.predict_log_density(test.take({test.names[0]: np.sort(some)}))[fitted.names[0]]
    return {
        "nelbo": objective(fitted, batch),
        "nlpd": metrics.nlpd(np.asarray(density)),
        "status": history.status,
        "weight": float(np.abs(fitted.prior.W).max()) if model != "CGP" else np.nan,
    }


models = ["CGP", "CCGP", "ACCGP"]
wanted = settings.table
for name in dict.fromkeys(name for _, names in wanted["cells"] for name in names):
    if name not in source_of:
        tables[name] = chapter.load(name)
        source_of[name] = tables[name].source
fits = sweep(
    table_cell,
    [
        dict(
            source=source_of[name], data=name, likelihood=likelihood, model=model, inducing=size, start=start,
            steps=wanted["steps"], most_rows=wanted["most_rows"],
        )
        for likelihood, names in wanted["cells"]
        for name in names
        for size in wanted["inducing"]
        for model in models
        for start in range(seed, seed + wanted["starts"])
    ],
    name="giraldo-3-table",
    workers=settings.workers,
    progress=False,
)  # fmt: skip
cell = ["likelihood", "data", "inducing"]
best_fits = fits.loc[fits.groupby([*cell, "model"])["nelbo"].idxmin()]
rerun = best_fits.pivot(index=cell, columns="model", values="nlpd")[models]

# %% [markdown]
# First what the printed numbers say, against the text about them. Lower is better.

# %%
printed = pd.read_csv(data_folder() / "published" / "giraldo-table-3-2.csv")
printed["CCGP wins"] = printed["CCGP"] < printed["CGP"]
lowest = printed[models].eq(printed[models].min(axis=1), axis=0)
wins, cells = printed.groupby("inducing")["CCGP wins"].sum(), printed.groupby("inducing").size()
share = printed["CCGP wins"].mean()
ours_share = float((rerun["CCGP"] < rerun["CGP"]).mean())
enough = len(rerun) >= 10
judged = [motor, *tables.values()] if settings.levels else None
chapter.claim(
    "giraldo-3-c6",
    holds=bool(0.65 <= share < 0.70 and (not settings.levels or ours_share >= 0.55)),
    measured=f"printed: CCGP below CGP in {wins[20]}/{cells[20]} (M = 20) and {wins[40]}/{cells[40]} (M = 40) cells, {share:.0%}"
    + (f"; re-run: {int((rerun['CCGP'] < rerun['CGP']).sum())} of {len(rerun)}, {ours_share:.0%}" if enough else ""),
    note="Checked on the printed table"
    + (" and on the re-run." if settings.levels else "; the re-run decides at the paper profile only."),
    data=judged,
)

# %%
best_or_tied = lowest.groupby(printed["inducing"]).sum()
ours_lowest = rerun.round(2).eq(rerun.round(2).min(axis=1), axis=0).sum()
chapter.claim(
    "giraldo-3-c7",
    holds=bool(
        (best_or_tied.idxmax(axis=1) == "ACCGP").all()
        and (not settings.levels or ours_lowest["ACCGP"] > ours_lowest.drop("ACCGP").max())
    ),
    measured="; ".join(
        f"printed, M = {size}: lowest or tied ACCGP {row['ACCGP']}, CCGP {row['CCGP']}, CGP {row['CGP']} of {cells[size]}"
        for size, row in best_or_tied.iterrows()
    )
    + (
        f"; re-run: ACCGP {ours_lowest['ACCGP']}, CCGP {ours_lowest['CCGP']}, CGP {ours_lowest['CGP']} of {len(rerun)}"
        if enough
        else ""
    ),
    note="Checked on the printed table"
    + (" and on the re-run." if settings.levels else "; the re-run decides at the paper profile only."),
    data=judged,
)

# %%
ordered = printed[printed["data"].isin(["motor", "concrete", "bike", "CTslice"])]
broken = ordered[~((ordered["ACCGP"] < ordered["CCGP"]) & (ordered["CCGP"] < ordered["CGP"]))]
reverse = printed["data"].isin(["boston", "protein"])
cgp_first = (printed[models].idxmin(axis=1) == "CGP") & lowest["CGP"]
others = printed[reverse & ~cgp_first]


def cell_names(rows):
    return ", ".join(f"{row.data} {row.likelihood} M = {row.inducing}" for row in rows.itertuples())


chapter.claim(
    "giraldo-3-c8",
    holds=bool(len(broken) == 0),
    measured=f"ACCGP < CCGP < CGP fails in {len(broken)} of {len(ordered)} cells ({cell_names(broken)}); CGP lowest in "
    f"{int((reverse & cgp_first).sum())} of {int(reverse.sum())} boston and protein cells (not in {cell_names(others)})",
    note="Checked on the printed table: the prose overlooks three cells, and in the exception it names for protein the tie "
    "is between CCGP and ACCGP, not between CCGP and CGP.",
)
pd.concat([broken, others])[["data", "likelihood", "inducing", *models]].reset_index(drop=True)

# %% [markdown]
# Now beside what we measure:

# %%
print_table = printed.replace({"data": {"CTslice": "ctslice"}}).set_index(cell)[models].add_prefix("published: ")
both = print_table.join(rerun.map("{:.2f}".format).add_prefix("ours: "), how="left")
missing = "without CTslice, which has to be downloaded"
if len(rerun) < len(print_table) - 6:
    missing += f"; {len(rerun)} of {len(print_table)} rows re-run"
chapter.table(
    "giraldo-table-3-2",
    both,
    data=[motor, *(tables[name] for name in tables if name in rerun.index.get_level_values("data"))],
    partial=missing,
)

# %%
gap = (rerun - printed.set_index(cell)[models]).loc[rerun.index].abs()
within = float((gap <= 0.3).to_numpy().mean())
better = float(((rerun - printed.set_index(cell)[models]).loc[rerun.index] < -0.3).to_numpy().mean())
chapter.claim(
    "giraldo-3-c9",
    holds=bool(within >= 0.6),
    measured=f"{int((gap <= 0.3).to_numpy().sum())} of {gap.size} cells within 0.3 of print ({within:.0%}); ours lower by more "
    f"than 0.3 in {better:.0%}, higher in {1 - within - better:.0%}",
    note=f"{gap.size} of the 108 cells without CTslice, {wanted['steps']} steps, {wanted['starts']} start"
    f"{'s' if wanted['starts'] > 1 else ''} each. {int((best_fits['weight'] < 0.05).sum())} of {int(best_fits['weight'].count())} CCGP and "
    f"ACCGP fits ended with every weight below 0.05; {int((fits['status'] != 'finished').sum())} of {len(fits)} runs failed.",
)

# %% [markdown]
# ## Estimating a predictive density (§3.10)
#
# The thesis scores models by the negative log predictive density, $-\frac1N\sum_n \log\int p(y_n \mid \mathbf f)\,q(\mathbf f)\,d\mathbf f$, and its
# released code estimates the integral from 1000 samples. The logarithm of an unbiased estimate is biased downwards (Jensen), so
# the NLPD is biased upwards, most where $y_n$ is unlikely. For the heteroscedastic Gaussian one function integrates in closed form,
# $\int \mathcal N(y \mid f_1, e^{f_2})\,q(f_1)\,df_1 = \mathcal N(y \mid m_1, v_1 + e^{f_2})$, and quadrature over the other is exact to
# many digits. All scores of this chapter are by quadrature.

# %%
train, test = observations.split(test=0.5, seed=seed)
on_half = trained(constructors["CCGP"](train), train)
F = on_half.predict_f(test.inputs(0))
m, v, y = F.mean.numpy(), F.var.numpy(), test[0].Y[:, 0]
by_library = metrics.nlpd(np.asarray(on_half.predict_log_density(test)[NAME]))
z, w = np.polynomial.hermite_e.hermegauss(100)
densities = stats.norm.logpdf(y[:, None], m[:, :1], np.sqrt(v[:, :1] + np.exp(m[:, 1:] + np.sqrt(v[:, 1:]) * z)))
reference = -special.logsumexp(densities, b=w / w.sum(), axis=1).mean()


def monte_carlo(count, rng):
    f = m + np.sqrt(v) * rng.standard_normal((count, *m.shape))
    return -(special.logsumexp(stats.norm.logpdf(y, f[..., 0], np.exp(f[..., 1] / 2)), axis=0) - np.log(count)).mean()


rng = np.random.default_rng(seed)
counts = [3, 10, 30, 100, 300, 1000]
estimates = {count: [monte_carlo(count, rng) for _ in range(settings.repeats)] for count in counts}
low, middle, high = np.quantile(list(estimates.values()), [0.05, 0.5, 0.95], axis=1)

fig, ax = plt.subplots(figsize=(7.2, 3.2))
bands(ax, counts, middle, lower=low, upper=high, label="Monte Carlo, median", band_label="5 % to 95 %", marker="o")
ax.axhline(reference, color="black", ls="--", label="quadrature")
ax.set(xscale="log", xlabel="samples S", ylabel="test NLPD")
ax.legend()
plt.show()

pd.DataFrame(
    {
        "NLPD": [
            f"{reference:.6f}",
            f"{by_library:.6f}",
            *(f"{np.mean(estimates[c]):.4f} (bias {np.mean(estimates[c]) - reference:+.4f})" for c in (10, 100, 1000)),
        ]
    },
    index=["quadrature, 100 nodes", "the library, 20 nodes", *(f"Monte Carlo, S = {c}" for c in (10, 100, 1000))],
)

# %% [markdown]
# ## Two outputs of different type
#
# Nothing above asks for a single output. With one likelihood an output and one set of latent processes for all their functions the
# model is HetMOGP {cite}`moreno2018het`, the subject of chapter 4. On the toy T1 of the thesis (synthetic), we take its heteroscedastic
# Gaussian output and its binary one, and hide the real-valued output on an interval. The binary labels, which share latent
# processes with it, are still seen there.

# %%
toy = chapter.load("giraldo-toy", variant="T1", N=settings.toy_points)
x = toy.X[:, 0]
hidden = (x > 0.45) & (x < 0.6)
pair = MultiOutputData.from_list([(toy.X[~hidden], toy.Y[~hidden, 0]), (toy.X, toy.Y[:, 2])], names=["signal", "label"])
alone = MultiOutputData.from_list([(toy.X[~hidden], toy.Y[~hidden, 0])], names=["signal"])
types = {"signal": likelihoods.HeteroscedasticGaussian(), "label": likelihoods.Bernoulli()}

together = trained(
    hetmogp_lmc(pair, types, latents=3, inducing=40, seed=seed, scaling=None, start="plain"),
    pair,
    settings.toy_steps,
)
separate = trained(
    ccgp(
        alone,
        likelihoods.HeteroscedasticGaussian(),
        latents=3,
        inducing=40,
        seed=seed,
        scaling=None,
        start="plain",
    ),
    alone,
    settings.toy_steps,
)

# %% tags=["hide-input"]
fig, axes = plt.subplots(2, 1, figsize=(8.4, 8.0), sharex=True)
for model, name, colour in ((separate, "signal alone", "orange"), (together, "both outputs", "blue")):
    mean, var = (np.asarray(part)[:, 0] for part in model.predict_y(toy.X, "signal"))
    bands(axes[0], x, mean, np.sqrt(var), color=COLOURS[colour], label=name, band_label=f"{name}, ± 2 sd", alpha=0.18)
axes[0].plot(x[~hidden], toy.Y[~hidden, 0], "k.", ms=3, label="seen")
axes[0].plot(x[hidden], toy.Y[hidden, 0], ".", ms=4, color=COLOURS["red"], label="hidden")
axes[0].set(ylabel="signal", title="heteroscedastic Gaussian output")
probability = np.asarray(together.predict_y(toy.X, "label")[0])[:, 0]
axes[1].plot(x, probability, color=COLOURS["blue"], label="predicted")
axes[1].plot(x, special.expit(toy.extras["f"][:, 4]), "--", color=COLOURS["grey"], label="true")
axes[1].plot(x, toy.Y[:, 2], "k|", ms=6, label="labels")
axes[1].set(xlabel="x", ylabel="probability of label 1", title="binary output")
for ax, below in zip(axes, (-0.05, -0.2), strict=True):
    ax.axvspan(0.45, 0.6, color="#F0F0F0", zorder=0)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, below), ncols=3)
plt.show()

# %%
unseen = MultiOutputData.from_list([(toy.X[hidden], toy.Y[hidden, 0])], names=["signal"])
labels_too = MultiOutputData.from_list(
    [(toy.X[hidden], toy.Y[hidden, 0]), (toy.X[hidden], toy.Y[hidden, 2])], names=["signal", "label"]
)
pd.DataFrame(
    {
        "NLPD of the hidden signal": {
            "signal alone": f"{metrics.nlpd(np.asarray(separate.predict_log_density(unseen)['signal'])):.3f}",
            "both outputs": f"{metrics.nlpd(np.asarray(together.predict_log_density(labels_too)['signal'])):.3f}",
        }
    }
)

# %% [markdown]
# ## What we found that the document does not say
#
# - The objective of a CCGP (and of every model of the thesis with shared latent processes) is not a lower bound; one observation
#   is enough to exceed the evidence. The exact expectation costs nothing more for the heteroscedastic Gaussian.
# - FNG with the constants of its author's code does not lead Figure 3.1; plain Adam with the same step size does. The start value
#   $s_0$ of its squared gradients, there to set the width of the search, also sets the first steps, and these can take the weights
#   to zero before the model has learned anything. SGD with a step size of $10^{-15}$ is not a competitor.
# - The order of Table 3.1 is an order of how far training got. Trained to convergence, CGP and CCGP are close on test data,
#   against the spread between random splits of 133 points.
# - ACCGP's doubled data term is a *tempered* likelihood. A CCGP with one output whose KL counts half behaves like it, under both
#   ways of training: the second copy of the output is not what makes the difference. Stopped early, both have got further than
#   CCGP; at convergence they fit the training data better, the test data no better, and their intervals hold fewer test points.
#
# ## Exercises

# %% [markdown] tags=["exercise"]
# **Exercise 1.** Bonnet's and Price's theorems say $\partial_m \mathbb E[g(f)] = \mathbb E[g'(f)]$ and $\partial_v\mathbb E[g(f)] =
# \tfrac12\mathbb E[g''(f)]$ for $f \sim \mathcal N(m, v)$. Check both for $g = \log p(y \mid f)$ of the Poisson likelihood by automatic
# differentiation.

# %% tags=["solution"]
poisson = likelihoods.Poisson()
m, v, y = tf.Variable([[0.3]], dtype=tf.float64), tf.Variable([[0.4]], dtype=tf.float64), np.array([[2.0]])
with tf.GradientTape() as tape:
    expectation = poisson.variational_expectations(np.zeros((1, 1)), m, v, y)
by_m, by_v = (float(g[0, 0]) for g in tape.gradient(expectation, [m, v]))
z, w = np.polynomial.hermite_e.hermegauss(40)
rate = np.exp(0.3 + np.sqrt(0.4) * z)
pd.DataFrame(
    {"autodiff": [by_m, by_v], "expectation": [w @ (2.0 - rate) / w.sum(), 0.5 * (w @ -rate) / w.sum()]},
    index=["∂/∂m = E[g′]", "∂/∂v = ½ E[g″]"],
)

# %% [markdown] tags=["exercise"]
# **Exercise 2.** Show that the NLPD is never larger than the negative mean of $\mathbb E_q[\log p(y_n \mid \mathbf f)]$ (Jensen), and measure the
# difference on the test half of the motorcycle data. Where is it large?

# %% tags=["solution"]
model = on_half
F = model.predict_f(test.inputs(0))
expected = model.likelihood.likelihoods[0].variational_expectations(test.inputs(0), F.mean, F.var, test[0].Y).numpy()
log_density = np.asarray(model.predict_log_density(test)[NAME])
slack = log_density - expected
worst = np.argsort(slack)[-3:]
pd.DataFrame(
    {
        "time (standardised)": test.inputs(0)[worst, 0],
        "log density": log_density[worst],
        "expected log-likelihood": expected[worst],
    }
).assign(**{"smallest slack of all test points": slack.min()})

# %% [markdown] tags=["solution"]
# The difference is the variance of $\log p(y_n \mid \mathbf f)$ under $q$, to second order: large where $q$ is wide or where $y_n$ is far from the
# mean relative to the noise, so that a small change of the log variance changes the density a lot.

# %% [markdown] tags=["exercise"]
# **Exercise 3.** A CGP is a CCGP with $Q = J$ and $W = \mathbf I$. Build both with the same kernels, inducing points and $q$, and compare their
# objectives.

# %% tags=["solution"]
independent = whole["CGP"]
mixed = constructors["CCGP"](observations)
gpflow.utilities.multiple_assign(mixed, {**gpflow.utilities.read_values(independent), ".prior.W": np.eye(2)})
pd.DataFrame(
    {
        "objective (nats)": {
            "CGP": float(independent.elbo(observations)),
            "CCGP, W = I": float(mixed.elbo(observations)),
        }
    }
)

# %% [markdown] tags=["exercise"]
# **Exercise 4.** Train a model on $R$ copies of its output with equal weights. Which weight of the KL in a model of one output has the same
# optimum? What does the posterior tend to for $R\to\infty$, and what happens to the mean of $q$ in a Gaussian model with known noise,
# where everything is in closed form? Take one observation $y$ with noise variance $s^2$ of one $u\sim\mathcal N(0,1)$.

# %% tags=["solution"]
y_one, noise = 1.5, 0.5
copies = np.array([1, 2, 4, 16, 256])
precision = 1 + copies / noise
pd.DataFrame(
    {"mean of q(u)": copies * y_one / noise / precision, "variance of q(u)": 1 / precision, "KL weight": 1 / copies},
    index=pd.Index(copies, name="copies R"),
).round(4)

# %% [markdown] tags=["solution"]
# $R$ copies are one with the KL divided by $R$. Each copy counts as an observation of its own, with the precision $R/s^2$ in all: the mean goes
# to $y$, the variance to zero. So the posterior of a GP goes to the interpolation of the data, with certainty. With a likelihood that has a
# noise *function*, that function then explains the residuals of an ever more flexible mean, and the predictive intervals shrink with them.

# %%
chapter.finish()
