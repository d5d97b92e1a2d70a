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
# # Xia 2: From Gaussian processes to GPAR and GPLAR
#
# This chapter builds the background of {cite}`xia2020thesis`: kernels and posteriors of one Gaussian process, the
# chain of regressions called GPAR {cite}`requeima2019gpar`, its latent version GPLAR with the doubly stochastic bound
# {cite}`salimbeni2017dsvi`, and a map of the models around them.
#
# **What it shows.** Figures 2.1–2.5 and Tables 2.1–2.2 of the thesis, redrawn; the bound of GPLAR written out in twenty
# lines on GPflow's own sparse GP; every property the thesis states about both models, checked to rounding error; the slips of
# its printed formulas, with a cell for the two that change results (the sign in Eq. 2.1, the variance in Eq. 2.5).
#
# **Data.** Seven noise-free points of a seeded GP draw, and three synthetic functions (both generated here).
#
# **Time.** Measured on one core, beyond ten seconds to start: 15 seconds at `smoke`, 20 at `quick`; `long` and `paper` only
# sample more paths. No model is trained at scale here: the experiments of the thesis are in its chapter 4.

# %% tags=["parameters"]
profile = "quick"
seed = 0

# %%
from mogp.book import Chapter
from mogp.book.plots import graph

chapter = Chapter("xia/2", profile=profile, seed=seed)
settings = chapter.settings(
    smoke=dict(repeats=2000),
    quick=dict(repeats=5000),
    long=dict(repeats=40_000),
    paper=dict(repeats=40_000),
)

# %%
import gpflow
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from gpflow.kernels import Linear, Periodic, RationalQuadratic, SquaredExponential
from gpflow.models import GPR, SVGP
from scipy.stats import multivariate_normal

from mogp.plotting import COLOURS, bands, draws

rng = np.random.default_rng(seed)

# %% [markdown]
# ## One Gaussian process (§2.1)
#
# A Gaussian process $f \sim \mathcal{GP}(0, k)$ is fixed by its kernel $k(x, x') = \mathrm{cov}(f(x), f(x'))$. With
# $r^2 = (x - x')^2/\ell^2$ the four kernels of the thesis are
#
# $$
# \begin{aligned}
# k_{SE} &= v\,e^{-r^2/2}, & k_{RQ} &= v\Big(1 + \frac{r^2}{2\alpha}\Big)^{-\alpha}, \\
# k_{Lin} &= v\,x x', & k_{Per} &= v \exp\!\Big(-\frac{\sin^2(\pi (x - x')/p)}{2\ell^2}\Big).
# \end{aligned}
# $$
#
# Draws need a square root of the covariance matrix. A linear kernel has a matrix of rank one, so a Cholesky factor would
# need jitter, and jitter is noise on the draw; the eigenvectors need none.


# %%
def prior_draws(kernel, x, count, rng):
    """Draws [count, N] of GP(0, kernel) at x [N, 1], from the eigenvectors whose eigenvalue is not rounding error."""
    values, vectors = np.linalg.eigh(kernel(x).numpy())
    values = np.where(values > 1e-12 * values[-1], values, 0.0)
    return (vectors * np.sqrt(values) @ rng.standard_normal((len(x), count))).T


PERIOD = 2.0
kernels = {
    "squared exponential": SquaredExponential(),
    "rational quadratic, $\\alpha$ = 0.1": RationalQuadratic(alpha=0.1),
    "linear": Linear(),
    "periodic, p = 2": Periodic(SquaredExponential(lengthscales=0.5), period=PERIOD),
}
x = np.linspace(-5.0, 5.0, 201)[:, None]
prior = {name: prior_draws(kernel, x, 2, rng) for name, kernel in kernels.items()}

with chapter.figure(
    "xia-fig-2-1",
    nrows=4,
    ncols=2,
    figsize=(8.4, 9.2),
    sharex=True,
    alt="Four rows, one for each kernel: the kernel as a function of one input on the left, two draws on the right.",
) as axes:
    for (left, right), (name, kernel) in zip(axes, kernels.items(), strict=True):
        left.plot(x, kernel(x, np.zeros((1, 1))), label="$k(x, 0)$")
        left.plot(x, kernel(x, np.ones((1, 1))), "--", color=COLOURS["grey"], label="$k(x, 1)$")
        draws(right, x, prior[name])
        left.set(title=name, ylabel="covariance")
        right.set(title="two draws", ylabel="f(x)")
    axes[0, 0].legend(loc="upper left", ncols=1)
    axes[-1, 0].set(xlabel="x")
    axes[-1, 1].set(xlabel="x")

# %% [markdown]
# The thesis shows $k(\cdot, 0)$ only. For the linear kernel that is zero everywhere: a line through the origin says
# nothing about $f(0)$. The dashed $k(\cdot, 1)$ shows what it does say.
#
# What the figure shows can be stated to rounding error: lines have no second difference, periodic draws return after
# one period, and the rational quadratic kernel tends to the squared exponential.

# %%
lines, waves = prior["linear"], prior["periodic, p = 2"]
bent = np.abs(np.diff(lines, 2)).max() / np.ptp(lines)
steps = round(PERIOD / (x[1, 0] - x[0, 0]))
missed = np.abs(waves[:, steps:] - waves[:, :-steps]).max()
apart = np.abs(RationalQuadratic(alpha=1e6)(x) - SquaredExponential()(x)).max()

chapter.claim(
    "xia-2-c1",
    holds=bool(bent <= 1e-6 and missed <= 1e-6 and apart <= 1e-5),
    measured=f"second differences {bent:.0e} of the range, shift by a period {missed:.0e}, "
    f"|RQ(α = 10⁶) − SE| {apart:.0e}",
)

# %% [markdown]
# ### Posterior after seven noise-free points
#
# With targets $y_n = f(x_n) + \epsilon_n$, $\epsilon_n \sim \mathcal N(0, \sigma_y^2)$, the posterior is again a GP:
#
# $$
# \begin{aligned}
# \hat m(x) &= \mathbf k_{f\mathbf f}(\mathbf K + \sigma_y^2 \mathbf I)^{-1}\mathbf y, \\
# \hat k(x, x') &= k(x, x') - \mathbf k_{f\mathbf f}(\mathbf K + \sigma_y^2\mathbf I)^{-1}\mathbf k_{\mathbf ff'} .
# \end{aligned}
# $$


# %%
def posterior(kernel, X, y, x, noise_variance=0.0):
    """Mean [n] and covariance [n, n] of f at x [n, 1], given y [N, 1] at X [N, 1]."""
    K = kernel(X).numpy() + noise_variance * np.eye(len(X))
    Kxf = kernel(x, X).numpy()
    weights = np.linalg.solve(K, Kxf.T).T
    return (weights @ y)[:, 0], kernel(x).numpy() - weights @ Kxf.T


points = chapter.load("xia-seven-points")
kernel = SquaredExponential(lengthscales=float(points.extras["lengthscale"]))
mean, cov = posterior(kernel, points.X, points.Y, x)
sd = np.sqrt(np.clip(np.diag(cov), 0.0, None))
values, vectors = np.linalg.eigh(cov)
posterior_draws = mean + (vectors * np.sqrt(np.clip(values, 0.0, None)) @ rng.standard_normal((len(x), 3))).T

with chapter.figure(
    "xia-fig-2-2",
    ncols=2,
    figsize=(7.6, 3.5),
    sharey=True,
    data=points,
    alt="A GP prior with three draws, and the posterior after seven points, through which all draws pass.",
) as (left, right):
    bands(left, x, 0 * mean, np.ones_like(sd), color="black", alpha=0.12, label="mean", band_label="mean ± 2 sd")
    draws(left, x, prior_draws(kernel, x, 3, rng))
    bands(right, x, mean, sd, color="black", alpha=0.12, label="mean", band_label="mean ± 2 sd")
    draws(right, x, posterior_draws)
    right.plot(points.X, points.Y, "x", color="black", ms=9, mew=2, zorder=5, label="observed")
    left.set(title="(a) prior, three draws", xlabel="x", ylabel="f(x)")
    right.set(title="(b) posterior, three draws", xlabel="x")
    left.figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3)

# %%
at_mean, at_cov = posterior(kernel, points.X, points.Y, points.X)
miss = np.abs(at_mean - points.Y[:, 0]).max()
at_sd = np.sqrt(np.clip(np.diag(at_cov), 0.0, None)).max()

chapter.claim(
    "xia-2-c2",
    holds=bool(miss <= 1e-4 and at_sd <= 1e-2 and sd.max() <= 1.0 + 1e-9),
    measured=f"at the seven inputs |mean − y| ≤ {miss:.1g} and sd ≤ {at_sd:.1g}; elsewhere sd ≤ {sd.max():.4f} "
    "(prior: 1)",
    note="The evidence printed beside it (Eq. 2.1) has a plus sign where a minus belongs: next cell.",
)

# %% [markdown]
# ### The evidence, and a sign
#
# Hyper-parameters are chosen by the log evidence. The thesis prints (Eq. 2.1) $+\tfrac12\mathbf y^\top(\mathbf K +
# \sigma_y^2\mathbf I)^{-1}\mathbf y$; the Gaussian density has
#
# $$
# \log p(\mathbf y) = -\tfrac12\mathbf y^\top(\mathbf K + \sigma_y^2\mathbf I)^{-1}\mathbf y
# - \tfrac12\log|\mathbf K + \sigma_y^2\mathbf I| - \tfrac N2\log 2\pi .
# $$
#
# SciPy's density settles which is right. The printed form rewards a model for *not* explaining the data: its best
# variance is the smallest one on offer.

# %%
y = points.Y[:, 0]
correlation = SquaredExponential()(points.X).numpy()


def covariance_of(variance, noise_variance=1e-6):
    return variance * correlation + noise_variance * np.eye(len(y))


def log_evidence(variance, sign=-1.0):
    K = covariance_of(variance)
    return sign * 0.5 * y @ np.linalg.solve(K, y) - 0.5 * np.linalg.slogdet(K)[1] - 0.5 * len(y) * np.log(2 * np.pi)


variances = np.geomspace(1e-2, 1e2, 81)
scores = pd.DataFrame(
    {
        "evidence": [log_evidence(v) for v in variances],
        "as printed": [log_evidence(v, sign=1.0) for v in variances],
        "SciPy": [multivariate_normal(cov=covariance_of(v)).logpdf(y) for v in variances],
    },
    index=pd.Index(variances, name="variance"),
)
pd.DataFrame(
    {
        "largest distance to SciPy's density": [
            f"{np.abs(scores[form] - scores['SciPy']).max():.1e}" for form in ("evidence", "as printed")
        ],
        "kernel variance it prefers, of 0.01 to 100": [
            f"{scores[form].idxmax():.3g}" for form in ("evidence", "as printed")
        ],
    },
    index=["with the minus sign", "as printed (Eq. 2.1)"],
)

# %% [markdown]
# ## GPAR: a chain of regressions (§2.3)
#
# For $L$ outputs the product rule gives $p(y_{1:L}(x)) = \prod_l p(y_l(x) \mid y_{1:l-1}(x))$. GPAR makes every factor a
# GP that reads the input *and the outputs before it*:
#
# $$
# y_l(x) = f_l\big(y_{1:l-1}(x), x\big) + \epsilon_l, \qquad f_l \sim \mathcal{GP}(0, k_l) .
# $$
#
# (The thesis's brackets read $f_2(y_1(x, x))$; the arguments are $y_1(x)$ and $x$.) GPLAR puts a latent $h_l$ between
# the function and the observation, and passes $h_{1:l-1}$ on instead of $y_{1:l-1}$.


# %% tags=["hide-input"]
def chain_graph(ax, node, fan, places):
    """The edges of an autoregressive chain over node1 … node3, drawn with x and the functions f1 … f3."""
    edges = [("x", f"{node}{l}") for l in (1, 2, 3)]
    edges += [(f"f{l}", f"{node}{l}") for l in (1, 2, 3)]
    edges += [(f"{node}{a}", f"{node}{b}") for a, b in [(1, 2), (1, 3), (2, 3)]]
    observed = {"x", "y1", "y2", "y3"}
    if node == "h":
        edges += [(f"h{l}", f"y{l}") for l in (1, 2, 3)]
    labels = {name: "$\\mathbf{x}$" if name == "x" else f"${name[0]}_{name[1]}$" for name in places}
    plain = {name for name in places if name[0] == "f"}
    graph(
        ax,
        places,
        edges,
        labels=labels,
        observed=observed,
        plain=plain,
        bend={(f"{node}1", f"{node}3"): fan},
        radius=0.32,
        fontsize=15,
    )


with chapter.figure(
    "xia-fig-2-3",
    ncols=2,
    figsize=(9, 4.2),
    alt="Graphical models of GPAR, where observed outputs feed later ones, and GPLAR, where latent values do.",
) as (left, right):
    gpar_places = {f"f{l}": (1.6 * l, -1.1) for l in (1, 2, 3)} | {f"y{l}": (1.6 * l, 0.0) for l in (1, 2, 3)}
    chain_graph(left, "y", -0.45, gpar_places | {"x": (3.2, 2.1)})
    gplar_places = (
        {f"f{l}": (1.6 * l - 0.75, -0.75) for l in (1, 2, 3)}
        | {f"h{l}": (1.6 * l, 0.0) for l in (1, 2, 3)}
        | {f"y{l}": (1.6 * l, -1.6) for l in (1, 2, 3)}
    )
    chain_graph(right, "h", -0.45, gplar_places | {"x": (3.2, 2.1)})
    for ax in (left, right):
        ax.set_aspect("equal", adjustable="box")
        ax.set(xlim=(0.4, 5.3), ylim=(-2.1, 2.6))
    left.set_title("(a) GPAR: observations feed forward")
    right.set_title("(b) GPLAR: latent values feed forward")

# %% [markdown]
# ### Layer kernels (Table 2.1)
#
# A layer's kernel is a sum: one part reads the input, another the earlier outputs. A sum of kernels is a sum of
# independent functions, a product asks both arguments to be close. The table is code: `x` and `y` are column numbers.


# %%
def smooth(columns):
    return SquaredExponential(lengthscales=np.ones(len(columns)), active_dims=columns)


def linear(columns):
    return Linear(variance=np.ones(len(columns)), active_dims=columns)


layer_kernels = {
    "linear": lambda x, y: smooth(x) + linear(y),
    "linear, input-dependent": lambda x, y: smooth(x) + smooth(x) * linear(y),
    "nonlinear": lambda x, y: smooth(x) + smooth(y),
    "nonlinear, input-dependent": lambda x, y: smooth(x) + smooth([*x, *y]),
    "linear + nonlinear": lambda x, y: smooth(x) + smooth(y) + linear(y),
}
formulas = {
    "linear": "k_NL(x, x′) + k_Lin(y, y′)",
    "linear, input-dependent": "k_NL(x, x′) + k_NL(x, x′) · k_Lin(y, y′)",
    "nonlinear": "k_NL(x, x′) + k_NL(y, y′)",
    "nonlinear, input-dependent": "k_NL(x, x′) + k_NL((x, y), (x′, y′))",
    "linear + nonlinear": "k_NL(x, x′) + k_NL(y, y′) + k_Lin(y, y′)",
}


def hyperparameters(kernel):
    return sum(int(np.prod(p.shape)) for p in kernel.parameters)


table = pd.DataFrame(
    {
        "kernel of a layer after the first": formulas,
        "hyper-parameters at layer 3": {
            name: hyperparameters(make([0], [1, 2])) for name, make in layer_kernels.items()
        },
    }
).rename_axis("dependence")
chapter.table("xia-table-2-1", table)

# %% [markdown]
# ### Three synthetic outputs
#
# The functions of the thesis's first experiment (§4.2.1) serve as the running example. The printed second one,
# $\cos^2(y_1 + \sin 3x)$, has a misplaced bracket; the source it is taken from and all of its plots have
#
# $$
# \begin{aligned}
# h_1 &= -\frac{\sin(10\pi(x + 1))}{2x + 1} - x^4, \\
# h_2 &= \cos^2(h_1) + \sin 3x, \\
# h_3 &= h_2 h_1^2 + 3x .
# \end{aligned}
# $$
#
# They are observed with noise of standard deviation 0.05, and the data are **closed-downwards**: wherever an output is
# seen, all earlier ones are.


# %%
def truth(x):
    """The three functions [N, 3] at x [N]."""
    h1 = -np.sin(10 * np.pi * (x + 1)) / (2 * x + 1) - x**4
    h2 = np.cos(h1) ** 2 + np.sin(3 * x)
    return np.column_stack([h1, h2, h2 * h1**2 + 3 * x])


X = np.sort(rng.uniform(size=40))[:, None]
Y = truth(X[:, 0]) + 0.05 * rng.standard_normal((40, 3))
Y = (Y - Y.mean(0)) / Y.std(0)
Y[rng.choice(40, 8, replace=False), 2] = np.nan
also = rng.choice(np.flatnonzero(np.isnan(Y[:, 2])), 4, replace=False)
Y[also, 1] = np.nan
pd.DataFrame({"observed rows": (~np.isnan(Y)).sum(0)}, index=["y₁", "y₂", "y₃"]).T

# %% [markdown]
# GPAR is then $L$ ordinary regressions, fitted one after the other. The whole model:


# %%
def gpar(X, Y, dependence="nonlinear", noise_variance=0.01):
    """A chain of GP regressions for closed-downwards Y [N, L] (NaN = not observed), each fitted by its own evidence."""
    layers = []
    for l in range(Y.shape[1]):
        seen = ~np.isnan(Y[:, l])
        inputs = np.column_stack([X, Y[:, :l]])[seen]
        k = layer_kernels[dependence]([0], list(range(1, l + 1))) if l else smooth([0])
        first = k.kernels[0] if l else k
        first.lengthscales.assign([0.1])
        layer = GPR((inputs, Y[seen, l : l + 1]), k, noise_variance=noise_variance)
        gpflow.optimizers.Scipy().minimize(layer.training_loss, layer.trainable_variables)
        layers.append(layer)
    return layers


chain_of_two, chain_of_three = gpar(X, Y[:, :2]), gpar(X, Y)

# %% [markdown]
# **Does the evidence split?** Independently of the chain, stack all observations into one vector: given the earlier
# outputs, its covariance is block diagonal, and one dense Gaussian density gives the joint evidence.

# %%
blocks = [layer.kernel(layer.data[0]).numpy() for layer in chain_of_three]
noises = [layer.likelihood.variance.numpy() for layer in chain_of_three]
sizes = np.cumsum([0, *(len(block) for block in blocks)])
covariance = np.zeros((sizes[-1], sizes[-1]))
for start, stop, block, noise in zip(sizes, sizes[1:], blocks, noises, strict=False):
    covariance[start:stop, start:stop] = block + noise * np.eye(stop - start)
stacked = np.concatenate([layer.data[1].numpy()[:, 0] for layer in chain_of_three])
joint = -0.5 * (
    stacked @ np.linalg.solve(covariance, stacked) + np.linalg.slogdet(covariance)[1] + len(stacked) * np.log(2 * np.pi)
)
by_layer = [float(layer.log_marginal_likelihood()) for layer in chain_of_three]

moved = max(
    np.abs(a.numpy() - b.numpy()).max()
    for two, three in zip(chain_of_two, chain_of_three, strict=False)
    for a, b in zip(two.trainable_parameters, three.trainable_parameters, strict=True)
)
chapter.claim(
    "xia-2-c3",
    holds=bool(abs(joint - sum(by_layer)) <= 1e-8 and moved == 0.0),
    measured=f"joint evidence − sum of layers = {joint - sum(by_layer):.0e}; parameters of layers 1–2 change by "
    f"{moved:g} when layer 3 is added",
)

# %% [markdown]
# The second half of that sentence is also GPAR's weakness: since later layers leave earlier ones alone, what $y_3$ knows
# about a gap in $y_1$ is never used.
#
# ## GPLAR and its bound (§2.4)
#
# GPLAR keeps the chain but moves it to latent values,
#
# $$
# h_{ln} \mid f_l \sim \mathcal N\big(f_l(\mathbf x_n, h_{(1:l-1)n}), \sigma_l^2\big), \qquad
# y_{ln} \mid h_{ln} \sim p_l(y \mid h_{ln}),
# $$
#
# gives each layer inducing values $\mathbf u_l$ at $\mathbf Z_l$ with $q(\mathbf u_l) = \mathcal N(\mathbf m_l,
# \mathbf S_l)$, and keeps the prior conditional of $h$ in the variational family. The bound is (Eq. 2.4)
#
# $$
# \mathcal L = \sum_{l,n} o_{ln}\,\mathbb E_{q(h_{ln})}\big[\log p_l(y_{ln} \mid h_{ln})\big]
# - \sum_l \mathrm{KL}\big[q(\mathbf u_l)\,\|\,p(\mathbf u_l)\big],
# $$
#
# with $o_{ln} = 1$ where $y_{ln}$ was observed. A layer is exactly GPflow's `SVGP` whose inputs are $(\mathbf x,
# h_{1:l-1})$. The expectation over $h_{1:l-1}$ is sampled along paths,
#
# $$
# h_{lnr} = \mu_l(\hat{\mathbf x}_{lnr}) + \varepsilon_{lnr}\, s_l(\hat{\mathbf x}_{lnr}), \qquad
# \varepsilon_{lnr} \sim \mathcal N(0, 1),
# $$
#
# the one over $h_l$ itself is done in closed form by the likelihood.


# %%
def gplar_paths(layers, X, Y, eps, observed=None, spread=tf.sqrt):
    """The data term of Eq. 2.4 along S paths, [S], for Y [N, L] and standard normal eps [S, N, L].

    `observed` [N, L] says which entries of Y count; those that are not NaN if None.
    """
    S, N, _ = eps.shape
    observed = ~np.isnan(Y) if observed is None else observed
    targets = np.where(observed, Y, 0.0)
    H = np.tile(X, [S, 1])
    paths = 0.0
    for l, layer in enumerate(layers):
        mean, var = layer.predict_f(H)
        fit = layer.likelihood.variational_expectations(H, mean, var, np.tile(targets[:, l : l + 1], [S, 1]))
        paths += tf.reduce_sum(tf.reshape(fit, [S, N]) * observed[:, l], axis=1)
        h = mean + spread(var) * tf.reshape(eps[..., l], [S * N, 1])
        H = tf.concat([H, h], axis=1)
    return paths


def gplar_bound(layers, X, Y, eps, observed=None):
    return tf.reduce_mean(gplar_paths(layers, X, Y, eps, observed)) - sum(layer.prior_kl() for layer in layers)


# %% [markdown]
# A small GPLAR for our three outputs: ten inducing rows that are consistent across layers, $\mathbf Z_l = [\mathbf z, h_1(\mathbf
# z), \dots, h_{l-1}(\mathbf z)]$, and a posterior that is neither the prior nor sharp.

# %%
STANDARD = truth(np.linspace(0, 1, 500)).mean(0), truth(np.linspace(0, 1, 500)).std(0)


def gplar_layers(order=(0, 1, 2), output_variance=1.0, posterior_sd=0.3, noise_variance=0.1, inducing=10):
    """Sparse layers for the outputs in the given order; `output_variance` scales the kernels over earlier outputs."""
    z = np.linspace(0.0, 1.0, inducing)
    values = ((truth(z) - STANDARD[0]) / STANDARD[1])[:, list(order)]
    layers = []
    for l, output in enumerate(order):
        k = SquaredExponential(lengthscales=0.1 + 0.05 * output, active_dims=[0])
        if l:
            over_outputs = SquaredExponential(lengthscales=np.ones(l), active_dims=list(range(1, l + 1)))
            over_outputs.variance = gpflow.Parameter(output_variance, trainable=output_variance > 0)
            k = k + over_outputs
        layers.append(
            SVGP(
                k,
                gpflow.likelihoods.Gaussian(noise_variance),
                inducing_variable=np.column_stack([z, values[:, :l]]),
                q_mu=values[:, l : l + 1],
                q_sqrt=posterior_sd * np.eye(inducing)[None],
                whiten=False,
            )
        )
    return layers


def noise(paths, outputs=3, rows=40, seed=seed):
    """Standard normal [paths, rows, outputs]."""
    return np.random.default_rng([seed, paths]).standard_normal((paths, rows, outputs))


complete = (truth(X[:, 0]) - STANDARD[0]) / STANDARD[1] + 0.3 * rng.standard_normal((len(X), 3))
layers = gplar_layers()
pd.DataFrame(
    {f"{S} paths": [f"{float(gplar_bound(layers, X, complete, noise(S))):.2f}"] for S in (1, 10, 100, 1000)},
    index=["bound (nats)"],
)

# %% [markdown]
# ### Independent GPs and GPAR as limits
#
# With all output-kernel variances zero, the layers ignore each other: the bound must be the sum of the bounds of separate
# sparse GPs, whatever the number of paths, the seed and the order of the outputs. With one output it *is* `SVGP.elbo`.
# And if observations become exact, latent values become observations: with $\mathbf Z_1 = \mathbf X$, $\mathbf Z_2 =
# [\mathbf X, \mathbf y_1]$ and the exact posteriors as $q$, the bound must approach GPAR's evidence as $\sigma_{y_1}^2 \to
# 0$. (With two layers the expectation over $\varepsilon_1$ is one-dimensional, so we integrate it by Gauss–Hermite
# quadrature instead of sampling.)

# %%
separate = gplar_layers(output_variance=0.0)
sum_of_svgps = sum(
    float(layer.elbo((np.column_stack([X, complete[:, :l]]), complete[:, l : l + 1])))
    for l, layer in enumerate(separate)
)
differences = []
for order in [(0, 1, 2), (2, 0, 1), (1, 2, 0)]:
    reordered = gplar_layers(order, output_variance=0.0)
    for paths, other_seed in [(1, 1), (1, 2), (7, 3)]:
        bound = gplar_bound(reordered, X, complete[:, list(order)], noise(paths, seed=other_seed))
        differences.append(abs(float(bound) - sum_of_svgps))

one = gplar_layers()[:1]
one_output = abs(float(gplar_bound(one, X, complete[:, :1], noise(3, 1)) - one[0].elbo((X, complete[:, :1]))))


def exact_layer(inputs, targets, kernel, noise_variance):
    """An SVGP with Z at the inputs and the exact GP posterior as q(u), and the evidence of that regression."""
    exact = GPR((inputs, targets), kernel, noise_variance=noise_variance)
    mean, cov = exact.predict_f(inputs, full_cov=True)
    root = np.linalg.cholesky(cov[0].numpy() + 1e-12 * np.eye(len(inputs)))
    layer = SVGP(kernel, exact.likelihood, inputs, q_mu=mean.numpy(), q_sqrt=root[None], whiten=False)
    return layer, float(exact.log_marginal_likelihood())


def gap_to_gpar(noise_variance, X, Y):
    k1 = SquaredExponential(lengthscales=0.1, active_dims=[0])
    k2 = SquaredExponential(lengthscales=0.3, active_dims=[0]) + SquaredExponential(active_dims=[1])
    first, evidence1 = exact_layer(X, Y[:, :1], k1, noise_variance)
    second, evidence2 = exact_layer(np.column_stack([X, Y[:, :1]]), Y[:, 1:2], k2, 0.01)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    eps = np.broadcast_to(nodes[:, None, None], (40, len(X), 2))
    data_term = np.average(gplar_paths([first, second], X, Y, eps), weights=weights)
    return evidence1 + evidence2 - (data_term - float(first.prior_kl() + second.prior_kl()))


few = np.linspace(0.0, 1.0, 15)[:, None]
first = prior_draws(SquaredExponential(lengthscales=0.1), few, 1, rng).T
second = np.sin(2 * first) + 0.5 * few + 0.1 * rng.standard_normal((15, 1))
noise_variances = np.array([1e-1, 1e-2, 1e-3, 1e-4])
with gpflow.config.as_context(gpflow.config.Config(jitter=1e-10)):
    gaps = np.array([gap_to_gpar(v, few, np.column_stack([first, second])) for v in noise_variances])
slopes = np.diff(np.log10(gaps)) / np.diff(np.log10(noise_variances))
pd.DataFrame({"noise variance of y₁": noise_variances, "GPAR evidence − bound (nats)": gaps})

# %%
chapter.claim(
    "xia-2-c4",
    holds=bool(
        max(differences) <= 1e-8
        and one_output <= 1e-8
        and (gaps > 0).all()
        and (slopes > 0.7).all()
        and abs(slopes[-1] - 1) < 0.2
    ),
    measured=f"bound − sum of SVGP bounds ≤ {max(differences):.0e} over 3 orders × 3 path counts and seeds; one output "
    f"{one_output:.0e}; gap to GPAR falls like noise^{slopes[-1]:.2f}",
)

# %% [markdown]
# ### One path is enough, if the step is a standard deviation
#
# The estimate of the bound is unbiased for any number of paths $S$, and its variance falls as $1/S$. The thesis prints
# the reparametrisation (Eq. 2.5) as $\mu + \varepsilon\,\sigma^2$. That draws from the wrong distribution, and no number of
# paths repairs it. As a reference we integrate over $\varepsilon_1$ and $\varepsilon_2$ on a grid of $30 \times 30$ quadrature
# nodes.

# %%
chosen = np.arange(0, 40, 4)
inputs10, targets10 = X[chosen], complete[chosen]
layers = gplar_layers()
nodes, weights = np.polynomial.hermite_e.hermegauss(30)
pairs = np.stack([*(g.ravel() for g in np.meshgrid(nodes, nodes)), np.zeros(900)], axis=-1)
grid = np.broadcast_to(pairs[:, None, :], (900, len(inputs10), 3))
exact = np.average(gplar_paths(layers, inputs10, targets10, grid), weights=np.outer(weights, weights).ravel())


sampled = tf.function(lambda eps: gplar_paths(layers, inputs10, targets10, eps))
sampled_as_printed = tf.function(lambda eps: gplar_paths(layers, inputs10, targets10, eps, spread=tf.identity))


def path_values(count, seed, paths=sampled):
    """The data term along `count` independent paths."""
    stream = np.random.default_rng(seed)
    chunks = (tf.constant(stream.standard_normal((1000, len(inputs10), 3))) for _ in range(count // 1000))
    return np.concatenate([paths(chunk) for chunk in chunks])


one_path = path_values(1000, seed + 1)
thousand = path_values(1000, seed + 2).mean()
standard_error = one_path.std(ddof=1) * np.sqrt(2 / 1000)
z_paths = (one_path.mean() - thousand) / standard_error

repeats = settings.repeats
variance = {S: path_values(repeats * S, [seed, S]).reshape(repeats, S).mean(1).var(ddof=1) for S in (1, 3, 9)}
scaling = {S: variance[S] * S / variance[1] for S in (3, 9)}

right, wrong = path_values(8000, seed + 3), path_values(8000, seed + 3, sampled_as_printed)
z_right = (right.mean() - exact) / (right.std() / np.sqrt(len(right)))
z_wrong = (wrong.mean() - exact) / (wrong.std() / np.sqrt(len(wrong)))

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(7.2, 4.2))
bins = np.histogram_bin_edges(np.concatenate([right, wrong]), 60)
ax.hist(right, bins, density=True, alpha=0.55, color=COLOURS["blue"], label="$\\mu + \\varepsilon\\, s$")
ax.hist(
    wrong, bins, density=True, alpha=0.55, color=COLOURS["orange"], label="$\\mu + \\varepsilon\\, s^2$, as printed"
)
ax.axvline(exact, color="black", lw=1.5, label="quadrature")
ax.axvline(right.mean(), color=COLOURS["blue"], ls="--", label="mean of one-path estimates")
ax.axvline(wrong.mean(), color=COLOURS["red"], ls="--", label="the same, as printed")
ax.set(xlabel="data term of the bound, one path (nats)", ylabel="density")
fig.legend(loc="outside lower center", ncols=2)
plt.show()

# %%
chapter.claim(
    "xia-2-c5",
    holds=bool(
        abs(z_paths) <= 4
        and all(abs(ratio - 1) <= 0.2 for ratio in scaling.values())
        and abs(z_right) <= 4
        and abs(z_wrong) > 4
    ),
    measured=f"1000 one-path estimates against 1000 paths: {z_paths:+.1f} standard errors; S·var(S)/var(1) = "
    f"{scaling[3]:.2f} (S = 3), {scaling[9]:.2f} (S = 9); against quadrature {z_right:+.1f} standard errors, "
    f"with σ² as printed {z_wrong:+.0f}",
    note="Eq. 2.5 prints the variance where the standard deviation belongs; with σ the claim holds.",
)

# %% [markdown]
# ### Missing values and outputs with their own inputs
#
# Where $y_{ln}$ is missing its likelihood term is dropped and $h_{ln}$ is still passed on: no imputation, and no order of
# gaps is special. Outputs with their own inputs $\mathbf X_t$ (*heterotopic* data) are the same thing: stack all rows, and
# mask everything but output $t$ in the rows of $\mathbf X_t$.

# %%
gappy = complete.copy()
gappy[5:15, 0] = np.nan
gappy[20:30, 1] = np.nan
hidden = np.isnan(gappy)
layers = gplar_layers()
variables = [v for layer in layers for v in layer.trainable_variables]


def bound_and_gradients(Y, observed):
    with tf.GradientTape() as tape:
        bound = gplar_bound(layers, X, Y, noise(5), observed)
    gradients = tape.gradient(bound, variables, unconnected_gradients="zero")
    return np.concatenate([[float(bound)], *(g.numpy().ravel() for g in gradients)])


masked = [bound_and_gradients(np.where(hidden, value, gappy), ~hidden) for value in (np.nan, 0.0, 1e6)]
changed = max(np.abs(other - masked[0]).max() for other in masked[1:])
finite = bool(np.isfinite(masked[0]).all())

rows = [X[:15], X[10:28], X[25:]]
targets = [complete[:15], complete[10:28], complete[25:]]
eps = [noise(5, rows=len(own), seed=seed + t) for t, own in enumerate(rows)]
per_task = 0.0
for t in range(3):
    only = np.full((len(rows[t]), t + 1), np.nan)
    only[:, t] = targets[t][:, t]
    per_task += float(tf.reduce_mean(gplar_paths(layers[: t + 1], rows[t], only, eps[t][..., : t + 1])))
per_task -= sum(float(layer.prior_kl()) for layer in layers)

block = np.full((sum(map(len, rows)), 3), np.nan)
starts = np.cumsum([0, *map(len, rows)])
for t in range(3):
    block[starts[t] : starts[t + 1], t] = targets[t][:, t]
stacked_bound = float(gplar_bound(layers, np.concatenate(rows), block, np.concatenate(eps, axis=1)))

chapter.claim(
    "xia-2-c6",
    holds=bool(changed == 0.0 and finite and abs(stacked_bound - per_task) <= 1e-8),
    measured=f"bound and {len(masked[0]) - 1} gradients change by {changed:g} when masked values are NaN, 0 or 10⁶; stacked "
    f"rows − per-output bounds = {stacked_bound - per_task:.0e}",
    note="At X_t only level l = t is observed: lower levels are passed on without a likelihood term, higher ones need "
    "not be computed. The caption of Fig. 2.5 mentions only the higher ones (and cites Eq. 2.2 for Eq. 2.4).",
)

# %% [markdown]
# Figure 2.5 draws the two ways to connect levels. Rows are levels $l$, columns are the input sets $\mathbf X_t$ of each
# output; only $h_t^t$ is observed. In the multi-fidelity DGP (Cutajar et al., 2019) a level reads the one before it,
# in GPLAR all of them. Dashed edges lead to values that no observation needs.

# %% tags=["hide-input"]
levels = {f"{l}{t}": (1.7 * (t - 1), -1.5 * (l - 1)) for l in (1, 2, 3) for t in (1, 2, 3)}
inputs = {f"X{t}": (1.7 * (t - 1), 1.3) for t in (1, 2, 3)}


def heterotopic(ax, letter, reads):
    """Levels by inputs; `reads(l)` names the levels that level l reads."""
    edges = [(f"X{t}", f"1{t}") for t in (1, 2, 3)]
    edges += [(f"{a}{t}", f"{l}{t}") for t in (1, 2, 3) for l in (2, 3) for a in reads(l)]
    dashed = [edge for edge in edges if edge[0][0] != "X" and int(edge[1][0]) > int(edge[1][1])]
    labels = {name: f"${letter}_{name[0]}^{name[1]}$" for name in levels}
    labels |= {name: f"$\\mathbf{{X}}_{name[1]}$" for name in inputs}
    graph(
        ax,
        levels | inputs,
        edges,
        labels=labels,
        observed={"11", "22", "33"},
        boxes=set(inputs),
        dashed=dashed,
        bend={edge: -0.5 for edge in edges if edge[0][0] == "1" and edge[1][0] == "3"},
        radius=0.36,
        fontsize=14,
    )


with chapter.figure(
    "xia-fig-2-5",
    ncols=2,
    figsize=(9, 5.4),
    alt="Three levels over three input sets: in MF-DGP each level reads the previous one, in GPLAR all previous ones.",
) as (left, right):
    heterotopic(left, "f", lambda l: [l - 1])
    heterotopic(right, "h", lambda l: range(1, l))
    for ax in (left, right):
        ax.set_aspect("equal", adjustable="box")
        ax.set(xlim=(-0.7, 4.5), ylim=(-3.6, 1.8))
    left.set_title("(a) MF-DGP")
    right.set_title("(b) GPLAR")

# %% [markdown]
# Shaded: observed there through its likelihood. Every level also reads $\mathbf X_t$ directly (input propagation); those
# edges are left out of both drawings, as in the thesis.
#
# ## Related models (§2.5)
#
# Two questions order the models of the chapter: is the map between outputs linear, and how do outputs share information:
# through an implicit mixture of common processes, through a hierarchy of hidden layers, or explicitly, output to output? The
# thesis's own drawing cannot be recovered from its text; this one uses the axes that the text uses.

# %%
models = pd.DataFrame(
    [
        ("ICM", "intrinsic coregionalisation model", "Wackernagel 2013", "linear mixture, one kernel"),
        ("SLFM", "semi-parametric latent factor model", "Gryparis et al. 2007", "linear mixture, a kernel each"),
        ("MTGP", "multi-task GP", "Yu et al. 2005; Bonilla et al. 2008", "same process or same kernel"),
        ("COGP", "collaborative multi-output GP", "Nguyen & Bonilla 2014", "mixture plus own process, shared inducing"),
        ("HetMOGP", "heterogeneous multi-output GP", "Moreno-Muñoz et al. 2018", "mixture over likelihood parameters"),
        ("MTCGP", "multi-task classification GP", "Skolidis & Sanguinetti 2011", "mixture, probit, EP"),
        (
            "DGP",
            "deep GP with input propagation",
            "Damianou & Lawrence 2013; Bui et al. 2016; Duvenaud et al. 2014",
            "hidden layers",
        ),
        ("NARGP", "nonlinear multi-fidelity model", "Perdikaris et al. 2017", "previous output, plug-in mean"),
        ("MF-DGP", "multi-fidelity DGP", "Cutajar et al. 2019", "previous latent output, end to end"),
        ("GPAR", "GP autoregressive regression", "Requeima et al. 2018", "all previous outputs, layer by layer"),
        ("GPLAR", "GP latent autoregressive model", "Xia 2020", "all previous latent outputs, end to end"),
    ],
    columns=["abbreviation", "model", "reference", "how outputs share"],
).set_index("abbreviation")
chapter.table("xia-table-2-2", models)

# %% [markdown]
# The last two rows, which the thesis's table leaves out because the chapter is about them, complete the map. References are the
# thesis's; the semi-parametric latent factor model is usually credited to {cite}`teh2005slfm`. An arrow leads from a model to one
# that generalises it, and says how where there is room.

# %% tags=["hide-input"]
places = {
    "linear map between outputs": (5.5, 7.4),
    "nonlinear map": (12.4, 7.4),
    "implicit\nmixture": (0.0, 5.9),
    "ICM": (3.3, 6.4),
    "MTGP": (5.5, 6.4),
    "MTCGP": (7.7, 6.4),
    "COGP": (3.3, 5.1),
    "SLFM": (5.5, 5.1),
    "HetMOGP": (7.7, 5.1),
    "hierarchy": (0.0, 3.7),
    "DGP": (14.6, 3.7),
    "explicit,\nMarkov": (0.0, 2.0),
    "NARGP": (10.2, 2.0),
    "MF-DGP": (14.6, 2.0),
    "explicit,\nfully connected": (0.0, 0.0),
    "GPAR, GPLAR\nlinear kernel": (5.5, 0.0),
    "GPAR": (10.2, 0.0),
    "GPLAR": (14.6, 0.0),
}
headings = {name for name in places if name[0].islower()}
links = {
    ("SLFM", "GPAR, GPLAR\nlinear kernel"): "triangular mixing",
    ("GPAR, GPLAR\nlinear kernel", "GPAR"): "any kernel",
    ("DGP", "MF-DGP"): "observed layers",
    ("NARGP", "MF-DGP"): "end to end",
    ("NARGP", "GPAR"): "all outputs",
    ("MF-DGP", "GPLAR"): "all outputs",
    ("GPAR", "GPLAR"): "latent",
}
with chapter.figure(
    "xia-fig-2-4",
    figsize=(9, 5.1),
    alt="A map of multi-output models by the kind of map between outputs and the way outputs share information.",
) as ax:
    graph(
        ax,
        places,
        [*links, ("ICM", "SLFM"), ("SLFM", "COGP"), ("SLFM", "HetMOGP")],
        labels=links,
        boxes=set(places) - headings,
        plain=headings,
        colors={"GPAR": COLOURS["blue"], "GPLAR": COLOURS["red"], "GPAR, GPLAR\nlinear kernel": COLOURS["blue"]},
        fontsize=12,
    )
    for row in (4.4, 2.95, 1.0):
        ax.axhline(row, color="#D9D9D9", lw=1, zorder=0)
    ax.axvline(9.0, color="#D9D9D9", lw=1, zorder=0)

# %% [markdown]
# ## What we found that the document does not say
#
# - **The inner noise of the last layer is not identifiable.** For a Gaussian likelihood the bound falls linearly in
#   $\sigma_L^2$ (exercise 2), so an optimiser always drives it to its lower limit. It carries no information and is better
#   left out.
# - **Zero output-kernel variance is a trap as well as a special case.** At variance zero the bound does not depend on the
#   path at all, so later outputs send no gradient to the posteriors of earlier layers, and little near zero (next cell). The
#   thesis's advice to start output kernels *above* the input kernel has this reason.
# - **A linear GPLAR is not an LMC with Gaussian weights integrated out**: outputs are then uncorrelated, though dependent
#   (exercise 1). It is an LMC once the weights are given.

# %%
later_only = np.where([True, False, False], np.nan, complete)


def pull(output_variance):
    """Norm of the gradient that the terms of y₂ and y₃ send to the posterior mean of the first layer."""
    layers = gplar_layers(output_variance=output_variance)
    with tf.GradientTape() as tape:
        terms = tf.reduce_mean(gplar_paths(layers, X, later_only, noise(20)))
    return np.linalg.norm(tape.gradient(terms, layers[0].q_mu.unconstrained_variable, unconnected_gradients="zero"))


pd.DataFrame(
    {f"{v:g}": [f"{pull(v):.3g}"] for v in (0.0, 1e-4, 1e-2, 1.0)}, index=["pull of y₂ and y₃ on m₁"]
).rename_axis("output-kernel variance", axis="columns")

# %% [markdown]
# ## Exercises

# %% [markdown] tags=["exercise"]
# **Exercise 1.** Let $h_1 \sim \mathcal{GP}(0, k_1)$ and $h_2 = g_2 + a h_1$ with $g_2 \sim \mathcal{GP}(0, k_2)$ and $a \sim
# \mathcal N(0, v)$: the linear kernel of Table 2.1. Show by sampling that $\mathbb E[h_2(x) h_2(x')] = k_2 + v k_1$ and
# $\mathbb E[h_1(x) h_2(x')] = 0$. Are the outputs independent?

# %% tags=["solution"]
two = np.array([[0.0], [0.5]])
k1, k2, v = SquaredExponential(), SquaredExponential(lengthscales=0.5), 2.0
count = 200_000
h1, g2 = prior_draws(k1, two, count, rng), prior_draws(k2, two, count, rng)
h2 = g2 + np.sqrt(v) * rng.standard_normal((count, 1)) * h1
pd.DataFrame(
    {
        "sampled": [np.mean(h2[:, 0] * h2[:, 1]), np.mean(h1[:, 0] * h2[:, 1]), np.mean(h1[:, 0] ** 2 * h2[:, 0] ** 2)],
        "theory": [float(k2(two)[0, 1] + v * k1(two)[0, 1]), 0.0, 1.0 + 3.0 * v],
        "if independent": [np.nan, 0.0, 1.0 + v],
    },
    index=["E[h₂(x) h₂(x′)]", "E[h₁(x) h₂(x′)]", "E[h₁(x)² h₂(x)²]"],
)

# %% [markdown] tags=["solution"]
# The outputs are uncorrelated but not independent: their squares are correlated. Given $a$ they are an LMC with the
# unit lower-triangular mixing matrix $\begin{pmatrix}1 & 0\\ a & 1\end{pmatrix}$.

# %% [markdown] tags=["exercise"]
# **Exercise 2.** Add an inner noise $\sigma_1^2$ to the variance of a one-layer GPLAR. Show that the bound falls by exactly
# $N\sigma_1^2/(2\sigma_y^2)$.

# %% tags=["solution"]
layer = gplar_layers()[0]
mean, var = layer.predict_f(X)
expected = layer.likelihood.variational_expectations
falls = {
    inner: float(
        tf.reduce_sum(expected(X, mean, var + inner, complete[:, :1]) - expected(X, mean, var, complete[:, :1]))
    )
    for inner in (0.01, 0.1, 1.0)
}
pd.DataFrame({"change of the bound": falls, "−N σ₁² / 2σ_y²": {s: -len(X) * s / (2 * 0.1) for s in falls}}).rename_axis(
    "σ₁²"
)

# %% [markdown] tags=["exercise"]
# **Exercise 3.** GPAR depends on the order of the outputs. Fit the natural and the reversed order to the complete rows of the
# running example: which has the larger evidence, and which layer makes the difference?

# %% tags=["solution"]
full_rows = ~np.isnan(Y).any(axis=1)
evidences = {
    name: {
        f"y{o + 1}": float(layer.log_marginal_likelihood())
        for o, layer in zip(order, gpar(X[full_rows], Y[full_rows][:, order]), strict=True)
    }
    for name, order in {"y₁ → y₂ → y₃": [0, 1, 2], "y₃ → y₂ → y₁": [2, 1, 0]}.items()
}
by_order = pd.DataFrame(evidences).T
by_order["sum (nats)"] = by_order.sum(axis=1)
by_order

# %%
chapter.finish()
