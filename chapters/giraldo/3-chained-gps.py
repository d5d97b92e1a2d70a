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
#     finished: false
# ---

# %% [markdown]
# # Giraldo 3: Chained Gaussian processes
#
# Most likelihoods have more than one parameter, and nothing says that only the mean should depend on the input. A *chained*
# GP {cite}`saul2016chained` gives every parameter of the likelihood a latent function; the *correlated* chained GP of
# {cite}`giraldo2021thesis` lets these functions share latent processes. This chapter works through both on the
# motorcycle data {cite}`silverman1985`.
#
# **What it shows.** Why constant noise fails there; the likelihoods of the library with their links and closed forms, each
# checked against quadrature; CGP and CCGP under the same optimiser (Figures 3.2 and 3.3, Table 3.1, without their
# third model); that the usual objective of a CCGP is *not* a bound, with an example where it exceeds the evidence; how
# to estimate a predictive density; two outputs of different type in one model; and what the printed tables say against
# the text about them.
#
# **What is missing.** Optimisers (§3.6–3.8, Figure 3.1) and the augmented model ACCGP on real data (§3.9–3.10, Table 3.2).
#
# **Data.** The motorcycle data, 133 points; the synthetic toy T1 of the thesis.
#
# **Time.** Measured on one core, beyond ten seconds to start: 15 seconds at `smoke`, a minute at `quick`; `long` trains about
# twenty times as many steps.

# %% tags=["parameters"]
profile = "quick"
seed = 0

# %%
from mogp.companion import Chapter

chapter = Chapter("giraldo/3", profile=profile, seed=seed)
settings = chapter.settings(
    smoke=dict(steps=60, splits=1, toy_steps=60, toy_points=300, repeats=100),
    quick=dict(steps=800, splits=3, toy_steps=800, toy_points=500, repeats=300),
    long=dict(steps=3000, splits=15, toy_steps=5000, toy_points=1000, repeats=1000),
    paper=dict(steps=10_000, splits=15, toy_steps=10_000, toy_points=2000, repeats=1000),
)

# %%
import gpflow
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from scipy import special, stats

from mogp import MultiOutputData, fit, likelihoods, metrics
from mogp.models import ccgp, cgp, hetmogp_lmc
from mogp.optimizers import NaturalAdam
from mogp.plotting import COLOURS, bands
from mogp.project import data_folder

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
# All models of this chapter get the same 20 inducing points a function, the same steps and the same optimiser: natural
# gradients for $q(\mathbf u)$ and Adam for the rest, on all the data.

# %%
motor = chapter.load("motor")
observations = motor.data
NAME = motor.outputs[0]
constructors = {
    "constant noise": lambda data: cgp(data, likelihoods.Gaussian(0.1), inducing=20, seed=seed),
    "CGP": lambda data: cgp(data, likelihoods.HeteroscedasticGaussian(), inducing=20, seed=seed),
    "CCGP": lambda data: ccgp(data, likelihoods.HeteroscedasticGaussian(), latents=2, inducing=20, seed=seed),
}


def trained(model, data, steps=settings.steps):
    fit(model, data, steps=steps, optimizer=NaturalAdam(gamma=0.1, learning_rate=0.02), progress=False)
    return model


whole = {name: trained(constructors[name](observations), observations) for name in ("constant noise", "CGP")}

# %% tags=["hide-input"]
grid = np.linspace(motor.X.min() - 0.1, motor.X.max() + 0.1, 200)[:, None]
(x_mean, y_mean), (x_sd, y_sd) = motor.extras["mean"], motor.extras["sd"]


def milliseconds(x):
    return x_mean + x_sd * x


fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.5), sharey=True)
for ax, (name, model) in zip(axes, whole.items(), strict=True):
    mean, var = (np.asarray(part)[:, 0] for part in model.predict_y(grid, 0))
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
        for name, model in whole.items()
        for zone, share, sd in by_zone(model)
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
# Appendix I of the thesis lists all but the Exponential and the zero-inflated Poisson. Its Gamma has a *rate*, not a scale, as second parameter, and its Exponential
# has mean $e^{-f}$: the text leaves both open, the released code settles them.
#
# ## Correlated functions: CCGP (§3.5)
#
# The CGP's functions are independent before seeing data. In the correlated chained GP they are mixtures of $Q$ latent
# processes (Eq. 3.8),
#
# $$
# f_j(x) = \sum_{q=1}^{Q} w_{jq}\,u_q(x), \qquad u_q \sim \mathcal{GP}(0, k_q),
# $$
#
# so that where the mean moves quickly the variance may know about it. In the library both are four choices:
#
# | | prior | inducing variables | posterior | likelihood |
# |---|---|---|---|---|
# | `cgp` | independent GPs | points, one set a function | full, whitened | any |
# | `ccgp` | LMC with $Q$ latent GPs | points, one set a latent GP | full, whitened | any |

# %% [markdown]
# ### What the printed tables say
#
# The thesis compares three models: CGP, CCGP and *augmented* CCGP (ACCGP), a CCGP trained on two copies of its output (last section).
# Four of its claims are about its own tables, and can be checked on them before anything is run; the printed numbers are kept as
# files with the project. Table 3.1 has the motorcycle data. With three quarters of them for training, the text calls ACCGP the
# best model again:

# %%
published = pd.read_csv(data_folder() / "published" / "giraldo-table-3-1.csv").set_index(["split", "model"])
three_quarters = published.loc["75/25"]
chapter.claim(
    "giraldo-3-c4",
    holds=bool(three_quarters["test"].idxmin().startswith("ACCGP")),
    measured=f"lowest printed test NLPD: {three_quarters['test'].idxmin()} ({three_quarters['test'].min():.3f}); lowest "
    f"training NLPD: {three_quarters['train'].idxmin()} ({three_quarters['train'].min():.3f})",
    note="Checked on the printed table. It holds for the training NLPD only; on test data CCGP is lower.",
)

# %% [markdown]
# Table 3.2 has 21 rows (three likelihoods, seven data sets) for each of two sizes of the inducing set. Lower is better.

# %%
printed = pd.read_csv(data_folder() / "published" / "giraldo-table-3-2.csv")
models = ["CGP", "CCGP", "ACCGP"]
printed["CCGP wins"] = printed["CCGP"] < printed["CGP"]
lowest = printed[models].eq(printed[models].min(axis=1), axis=0)
wins, cells = printed.groupby("inducing")["CCGP wins"].sum(), printed.groupby("inducing").size()
share = printed["CCGP wins"].mean()
chapter.claim(
    "giraldo-3-c6",
    holds=bool(0.65 <= share < 0.70),
    measured=f"CCGP below CGP in {wins[20]}/{cells[20]} (M = 20) and {wins[40]}/{cells[40]} (M = 40) cells: {share:.0%}",
    note="Checked on the printed table.",
)

# %%
best_or_tied = lowest.groupby(printed["inducing"]).sum()
chapter.claim(
    "giraldo-3-c7",
    holds=bool((best_or_tied.idxmax(axis=1) == "ACCGP").all()),
    measured="; ".join(
        f"M = {size}: lowest or tied ACCGP {row['ACCGP']}, CCGP {row['CCGP']}, CGP {row['CGP']} of {cells[size]}"
        for size, row in best_or_tied.iterrows()
    ),
    note="Checked on the printed table.",
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
# ### CGP against CCGP
#
# The thesis trains on half and on three quarters of the data. One split is an anecdote on 133 points, so we draw several and
# show the first.

# %%
held_out = {"50/50": 0.5, "75/25": 0.25}


def nlpd(model, data):
    return metrics.nlpd(np.asarray(model.predict_log_density(data)[NAME]))


fitted, scores = {}, []
for split, share in held_out.items():
    for number in range(settings.splits):
        train, test = observations.split(test=share, seed=seed + number)
        for name, construct in constructors.items():
            model = trained(construct(train), train)
            scores.append(
                {
                    "split": split,
                    "number": number,
                    "model": name,
                    "train": nlpd(model, train),
                    "test": nlpd(model, test),
                }
            )
            if number == 0:
                fitted[split, name] = model, train, test
scores = pd.DataFrame(scores)


def prediction_panel(ax, model, train, test):
    mean, var = (np.asarray(part)[:, 0] for part in model.predict_y(grid, 0))
    sd = np.sqrt(var)
    ax.plot(grid, mean, color=COLOURS["blue"], label="mean")
    ax.plot(grid, mean + 2 * sd, "--", color=COLOURS["blue"], lw=1.3, label="mean ± 2 sd")
    ax.plot(grid, mean - 2 * sd, "--", color=COLOURS["blue"], lw=1.3)
    ax.plot(train.inputs(0), train[0].Y, "kx", ms=5, label="train")
    ax.plot(test.inputs(0), test[0].Y, "o", ms=4, color=COLOURS["red"], label="test")
    ax.set(xlabel="time (standardised)", ylim=(-4.2, 4.2))


for identifier, split in {"giraldo-fig-3-2": "50/50", "giraldo-fig-3-3": "75/25"}.items():
    with chapter.figure(
        identifier,
        ncols=2,
        figsize=(7.6, 3.7),
        sharey=True,
        data=motor,
        partial="the panels of ACCGP arrive with the rest of the chapter",
        alt=f"Predictions of CGP and CCGP on the motorcycle data, split {split}, with bands of two standard deviations.",
    ) as panels:
        for ax, name in zip(panels, ("CGP", "CCGP"), strict=True):
            prediction_panel(ax, *fitted[split, name])
            ax.set_title(f"{name}, {split} split")
        panels[0].set(ylabel="acceleration (standardised)")
        panels[0].figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)

# %%
measured = scores.groupby(["split", "model"])[["train", "test"]].agg(["mean", "std"])
table = pd.DataFrame(
    {
        f"{part} NLPD": [
            f"{measured.loc[row, (part, 'mean')]:.3f}"
            + (f" ± {measured.loc[row, (part, 'std')]:.3f}" if settings.splits > 1 else "")
            for row in measured.index
        ]
        for part in ("train", "test")
    },
    index=measured.index,
).join(published.add_prefix("published "))
table = table.reindex(
    pd.MultiIndex.from_product([held_out, ["constant noise", "CGP", "CCGP"]], names=["split", "model"])
)
chapter.table("giraldo-table-3-1", table, data=motor, partial="ACCGP arrives with the rest of the chapter")

# %% [markdown]
# Two things stand out. The step from constant to changing noise is the large one; from CGP to CCGP it is small against the spread
# between splits of 133 points. And the printed training scores of both models are well above ours: the thesis fits them by
# stochastic gradients on mini-batches of 20 points, and part of the printed distance between them may be distance to the
# optimum. Paired by split, the test NLPD of CCGP minus that of CGP:

# %%
paired = scores.pivot(index=["split", "number"], columns="model", values="test")
difference = (paired["CCGP"] - paired["CGP"]).groupby("split").agg(["mean", "min", "max"])
difference.round(3)

# %% [markdown]
# ## The product of marginals is not a bound (§3.5–3.6)
#
# In a CCGP $f_1(x)$ and $f_2(x)$ are mixtures of the same $u_q(x)$, so they are correlated under $q$. The objective of the thesis
# (Eq. 3.16) takes the expectation under the *product* of the marginals $q(f_1)q(f_2)$ all the same. For the heteroscedastic Gaussian the
# exact expectation is known: with $c = \mathrm{cov}_q(f_1, f_2)$,
#
# $$
# \mathbb E_q \log p = -\tfrac12\log2\pi - \tfrac12 m_2 - \tfrac12 e^{-m_2 + v_2/2}\big[(y - m_1 + c)^2 + v_1\big].
# $$
#
# On the fitted CCGP, against two-dimensional quadrature under the joint $q(f_1, f_2)$:

# %%
model, train, _ = fitted["75/25", "CCGP"]
likelihood = model.likelihood.likelihoods[0]
F = model.predict_f(train.inputs(0), full_output_cov=True)
m, cov, y = F.mean.numpy(), F.var.numpy(), train[0].Y
product = likelihood.variational_expectations(train.inputs(0), m, np.diagonal(cov, axis1=1, axis2=2), y).numpy().sum()
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
# with a CGP by this objective is therefore not fair to the CGP; compare predictions instead, as above.
#
# ## Estimating a predictive density (§3.10)
#
# The thesis scores models by the negative log predictive density, $-\frac1N\sum_n \log\int p(y_n \mid \mathbf f)\,q(\mathbf f)\,d\mathbf f$, and its
# released code estimates the integral from 1000 samples. The logarithm of an unbiased estimate is biased downwards (Jensen), so
# the NLPD is biased upwards, most where $y_n$ is unlikely. For the heteroscedastic Gaussian one function integrates in closed form,
# $\int \mathcal N(y \mid f_1, e^{f_2})\,q(f_1)\,df_1 = \mathcal N(y \mid m_1, v_1 + e^{f_2})$, and quadrature over the other is exact to
# many digits.

# %%
model, _, test = fitted["50/50", "CCGP"]
F = model.predict_f(test.inputs(0))
m, v, y = F.mean.numpy(), F.var.numpy(), test[0].Y[:, 0]
by_library = nlpd(model, test)
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

together = trained(hetmogp_lmc(pair, types, latents=3, inducing=40, seed=seed), pair, settings.toy_steps)
separate = trained(
    ccgp(alone, likelihoods.HeteroscedasticGaussian(), latents=3, inducing=40, seed=seed), alone, settings.toy_steps
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
# ## Augmenting the output is not splitting the bound (§3.9)
#
# ACCGP trains a CCGP on *two copies* of its output, each with its own mixing weights. The thesis insists
# that this is not the single-output bound written as two sums. It is right, and the reason is plain when both copies get the same
# weights: the data term doubles, the KL does not. The objective therefore counts every observation twice, and its value cannot
# be compared with that of a CCGP.

# %%
single, train, _ = fitted["75/25", "CCGP"]
copies = MultiOutputData.from_list([(train.inputs(0), train[0].Y)] * 2, names=["y1", "y2"])
double = hetmogp_lmc(copies, [likelihoods.HeteroscedasticGaussian()] * 2, latents=2, inducing=20, seed=seed)
values = gpflow.utilities.read_values(single)
values[".prior.W"] = np.vstack([values[".prior.W"]] * 2)
gpflow.utilities.multiple_assign(double, values)

data_single, data_double = (float(tf.add_n(m.data_terms(d))) for m, d in ((single, train), (double, copies)))
kl_single, kl_double = float(single.kl()), float(double.kl())
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
# ## What we found that the document does not say
#
# - The objective of a CCGP (and of every model of the thesis with shared latent processes) is not a lower bound; one observation
#   is enough to exceed the evidence. The exact expectation costs nothing more for the heteroscedastic Gaussian.
# - Under a common optimiser the difference between CGP and CCGP on the motorcycle data is small against the spread between random
#   splits of 133 points.
# - ACCGP's doubled data term is a *tempered* likelihood: the posterior it finds is sharper than the data warrant, which is what the tight bands
#   of its panels show. Whether that helps on test data is an empirical question, which the rest of this chapter will take up.
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
model, _, test = fitted["50/50", "CGP"]
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
independent, train, _ = fitted["75/25", "CGP"]
mixed = ccgp(train, likelihoods.HeteroscedasticGaussian(), latents=2, inducing=20, seed=seed)
gpflow.utilities.multiple_assign(mixed, {**gpflow.utilities.read_values(independent), ".prior.W": np.eye(2)})
pd.DataFrame({"objective (nats)": {"CGP": float(independent.elbo(train)), "CCGP, W = I": float(mixed.elbo(train))}})

# %%
chapter.finish()
