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
# # Xia 4: Experiments with GPAR and GPLAR
#
# Chapter 4 of {cite}`xia2020thesis` compares a chain of latent functions, GPLAR, with a chain of regressions, GPAR
# {cite}`requeima2019gpar`: on synthetic functions, on draws from its own prior, on electrodes and exchange rates with gaps,
# and with labels among the outputs. This page runs all of it again.
#
# | | |
# |---|---|
# | **Shows** | Figures 4.1 to 4.18, Tables 4.1 to 4.5; claims xia-4-c1 to xia-4-c32 |
# | **Adds** | both ways of four things that the document leaves open or gets wrong: log-likelihoods with and without noise, errors against the mean of the test and of the training targets, inducing inputs that follow the posterior and that do not, areas under the curve plain and folded; coverage of every variant; all 16 subjects and all eleven years; what GPAR scores when it passes on draws in place of means; its errors on exchange rates from several starts |
# | **Data** | [`eeg`](../guide/data/eeg), [`exchange`](../guide/data/exchange), [`landmine`](../guide/data/landmine), [`london`](../guide/data/london) (two property types in place of three), and functions that are generated |
# | **Time** | `smoke` a minute and a half; `quick` about seven minutes on one core (an estimate); `long` about 40 minutes on two; `paper` has the thesis's steps and takes days |

# %% tags=["parameters"]
profile = "quick"
seed = 0

# %%
from types import SimpleNamespace

import gpflow
import numpy as np
import pandas as pd
import tensorflow as tf
from matplotlib.colors import to_rgb
from scipy.spatial import KDTree
from scipy.special import log_expit
from scipy.stats import spearmanr

from mogp.book import Chapter
from mogp.book.runs.chain_labels import LABEL_MODELS, labels_run, landmine_run
from mogp.book.runs.chains import SCORES, chain_run, gap_kind
from mogp.book.runs.mixtures import LEVELS, coverage_of
from mogp.book.runs.property_runs import CENTRE, KILOMETRES, local_majority, london_run, property_table, types_run
from mogp.datasets.london import BOX
from mogp.experiments import sweep
from mogp.likelihoods import RobustMax, Softmax
from mogp.models.chains.chain import Component, LatentChain
from mogp.plotting import COLOURS, bands, calibration
from mogp.project import data_folder

chapter = Chapter("xia/4", profile=profile, seed=seed)

# %% [markdown]
# The settings are the whole difference between the profiles. `thin` keeps every so many rows of a series. `base` and `rates` are
# for the two tables on real data, `gaps` and `both` for the figures on gaps in earlier outputs (electrodes and exchange
# rates), `many` for the comparison over subjects and years, `toys` for synthetic data of `size` points; `levels` are the noise
# levels of Figure 4.6 with `repeats` data sets each. `natural` adds GPLAR by natural gradients on the exchange rates (on every fourth day they diverge). `electrodes` and `currencies` leave outputs out of a chain.

# %%
SEVEN = ("MXN", "NZD", "CHF", "EUR", "CAD", "JPY", "AUD")
SUBJECTS = (337, 338, 339, 340, 341, 342, 344, 345, 364, 365, 368, 369, 370, 371, 372, 375)
YEARS = tuple(range(2003, 2014))
FEW = {
    "base": ("F3", "FZ", "F1", "F2"), "failure": ("F3", "F4", "F1", "F2"), "cross-channel": ("F3", "F4", "F5", "F1"), "long": ("F3", "F4", "F5"),
}  # fmt: skip
STARTS = tuple((variance, replace) for variance in (0.01, 0.1, 1.0, 10.0) for replace in (True, False))
settings = chapter.settings(
    smoke=dict(
        toys=dict(n=12, steps=1, gpar_steps=1), repeats=2, size=12, levels=(0.2, 1.0), gplar_seeds=1, electrodes=FEW,
        base=dict(thin=16, steps=1, gpar_steps=1), rates=dict(thin=16, steps=1, gpar_steps=1), natural=False, currencies=("EUR", *SEVEN[4:]),
        gaps=dict(thin=16, steps=1, gpar_steps=1), both=dict(thin=16, steps=1, gpar_steps=1), back=(*SEVEN[:2], *SEVEN[5:]),
        many=dict(thin=16, steps=1, gpar_steps=1), subjects=(337,), years=(2007,), starts=STARTS[:1], paths=10, workers=0, eager=True,
    ),
    quick=dict(
        toys=dict(n=100, steps=300, gpar_steps=200), repeats=4, size=100, levels=(0.01, 0.2, 0.6, 1.0), gplar_seeds=2, electrodes={},
        base=dict(thin=4, steps=400, gpar_steps=200), rates=dict(thin=4, steps=200, gpar_steps=100), natural=False, currencies=SEVEN,
        gaps=dict(thin=4, steps=300, gpar_steps=200), both=dict(thin=4, steps=200, gpar_steps=100), back=SEVEN,
        many=dict(thin=4, steps=200, gpar_steps=50), subjects=(337, 339, 345), years=(2005, 2006, 2007), starts=STARTS[::6], paths=100,
        workers=0, eager=False,
    ),
    long=dict(
        toys=dict(n=100, steps=1500, gpar_steps=1000), repeats=20, size=100, levels=tuple(np.linspace(0.01, 1.0, 11).round(2).tolist()),
        gplar_seeds=3, electrodes={}, base=dict(thin=1, steps=1000, gpar_steps=1000), rates=dict(thin=1, steps=300, gpar_steps=1000),
        natural=True, currencies=None, gaps=dict(thin=2, steps=1000, gpar_steps=1000), both=dict(thin=2, steps=1000, gpar_steps=300), back=SEVEN,
        many=dict(thin=4, steps=500, gpar_steps=200), subjects=SUBJECTS, years=YEARS, starts=STARTS[::3], paths=100, workers=2, eager=False,
    ),
    paper=dict(
        toys=dict(n=100, steps=10_000, gpar_steps=1000), repeats=100, size=100, levels=tuple(np.linspace(0.01, 1.0, 50).round(3).tolist()),
        gplar_seeds=3, electrodes={}, base=dict(thin=1, steps=8000, gpar_steps=1000), rates=dict(thin=1, steps=8000, gpar_steps=1000),
        natural=True, currencies=None, gaps=dict(thin=1, steps=8000, gpar_steps=1000), both=dict(thin=1, steps=8000, gpar_steps=1000), back=None,
        many=dict(thin=1, steps=8000, gpar_steps=1000), subjects=SUBJECTS, years=YEARS, starts=STARTS, paths=100, workers=None, eager=False,
    ),
)  # fmt: skip
tf.config.run_functions_eagerly(settings.eager)  # for a few steps a compiled graph does not pay
tf.get_logger().setLevel("ERROR")  # it warns of many small graphs, which are meant

# %% [markdown]
# The experiments with labels have settings of their own: `curves` for Figure 4.14 with several `draws` of the data; `mines`, `sizes` and `trials` for
# Figure 4.15; `homes` and `types` for London; `toy` paths for the check of a bound.

# %%
LABELS = chapter.settings(
    smoke=dict(
        curves=dict(inducing=8, steps=1, gpar_steps=1, samples=4), draws=1,
        mines=dict(tasks=2, inducing=8, steps=1, gpar_steps=1, samples=2), sizes=(20, 140), trials=2,
        homes=dict(rows=100, test_rows=80, inducing=8, steps=2, gpar_steps=1, batch=50, side=12, samples=4),
        types=dict(rows=40, steps=25), replace=(False,), toy=2000,
    ),
    quick=dict(
        curves=dict(inducing=100, steps=300, gpar_steps=200, samples=200), draws=1,
        mines=dict(tasks=5, inducing=40, steps=80, gpar_steps=30, samples=10), sizes=(20, 80, 140), trials=3,
        homes=dict(rows=2000, test_rows=1000, inducing=80, steps=800, gpar_steps=50, batch=500, side=40, samples=50),
        types=dict(rows=300, steps=100), replace=(False, True), toy=20_000,
    ),
    long=dict(
        curves=dict(inducing=100, steps=1000, gpar_steps=200, samples=200), draws=4,
        mines=dict(tasks=10, inducing=60, steps=200, gpar_steps=50, samples=20), sizes=(20, 60, 100, 140), trials=4,
        homes=dict(rows=8000, test_rows=4000, inducing=120, steps=2000, gpar_steps=100, batch=500, side=60, samples=100),
        types=dict(rows=500, steps=200), replace=(False, True), toy=100_000,
    ),
    paper=dict(
        curves=dict(inducing=200, steps=100_000, gpar_steps=1000, samples=200), draws=1,
        mines=dict(tasks=10, inducing=300, steps=20_000, gpar_steps=1000, samples=100), sizes=(20, 40, 60, 80, 100, 120, 140), trials=50,
        homes=dict(rows=15_000, test_rows=4483, inducing=200, steps=100_000, gpar_steps=1000, batch=500, side=100, samples=100),
        types=dict(rows=2000, steps=1000), replace=(False, True), toy=100_000,
    ),
)  # fmt: skip

# %% [markdown]
# ## How predictions are made and scored (§4.1)
#
# A prediction of either model is a mixture of $S$ Gaussians, one for each path $r$ through the chain, with means
# $\mu_{lnr}$ and variances $s_{lnr}^2$ of the function. Each claim below rests on one of these:
#
# - **SMSE**: $\sum_n(\bar\mu_{ln} - y_{ln})^2 / \sum_n(\bar y_l - y_{ln})^2$. The thesis defines $\bar y_l$ as the mean of the *test*
#   targets; Table 4.3 was almost certainly made with the mean of the *training* targets, so both are given there.
# - **HLL**: $\sum_n\log\frac1S\sum_r\mathcal N(y_{ln};\mu_{lnr}, s_{lnr}^2 + \sigma_{y_l}^2)$, in the units of the data. The author's code
#   scored GPAR with the Gaussian that has the moments of the *function*, without the noise $\sigma_{y_l}^2$, and GPLAR with it. Tables here give GPAR
#   both ways; below Table 4.2 a cell shows how much of a low score is the noise, and how much what GPAR passes on.
# - **Coverage**: the share of held-out targets inside a central interval of the mixture, noise included.
#
# All fits go through one function, `mogp.book.runs.chains.chain_run`. GPAR passes on posterior means, in training and
# in predictions, and fills gaps with them, as the author's program does: its mixture is one Gaussian. The thesis trains GPLAR from given start values for thousands of steps of Adam with rate 0.001. We start
# GPLAR where GPAR has ended (its kernels, its noise but at least 0.01 of the variance of an output, and the posterior that is best for these:
# `adopt`). On real data it then takes the same steps of Adam, fewer of them; on synthetic data, natural gradients for the posteriors, which reach in
# 300 steps a bound that Adam does not reach in 6000.

# %%
GREEN, ORANGE, RED, BLUE, PURPLE, SKY = (COLOURS[c] for c in ("green", "orange", "red", "blue", "purple", "sky"))
COLOUR_OF = {
    "GPAR": GREEN, "GPAR backward": ORANGE, "GPLAR": RED, "GPLAR, A": RED, "GPLAR, C": PURPLE, "GPLAR, frozen": COLOURS["brown"],
    "GPLAR, from zero": RED, "GPLAR, natural": "black", "bi-GPLAR": BLUE, "IGP": SKY, "DGP": COLOURS["grey"],
}  # fmt: skip
NATURAL = dict(rate=0.01, gamma=0.1)


def run(**point):
    """Fit several models to one data set: what the figures and verdicts below read."""
    found = chain_run(**point)
    del found["variances"], found["times"]
    return found


def compare(name, points, outputs):
    """Fits of models to data sets, for each point: by model its scores (a row for each output), curves and ranks."""
    points = [dict(samples=settings.paths, seed=seed) | point for point in points]
    table = sweep(run, points, name=name, workers=settings.workers, progress=False)
    found = []
    for point, (_, row) in zip(points, table.iterrows(), strict=True):
        held = [outputs[d] for d in row["outputs"]]
        arrays = {k: np.array(row[k], float) for k in ("scores", "curves", "ranks", "bounds", "inducing_means")}
        models = {
            model: SimpleNamespace(
                scores=pd.DataFrame(arrays["scores"][k], index=held, columns=SCORES),
                ranks=pd.DataFrame(arrays["ranks"][k], index=held).T,
                curves=arrays["curves"][k],
                bound=arrays["bounds"][k],
                means=arrays["inducing_means"][k],
            )
            for k, model in enumerate(point["models"])
        }
        x, test_x, inducing_x = (np.array(row[k], float) for k in ("x", "test_x", "inducing_x"))
        found.append(SimpleNamespace(x=x, test_x=test_x, inducing_x=inducing_x, held=held, models=models))
    return found


def panel(ax, x, models, d, names=None):
    """Means and 95 % bands of an output."""
    for model, found in models.items():
        mean, lower, upper = found.curves[..., d]
        label = (names or {}).get(model, model)
        style = "--" if model.startswith("GPAR") else "-"
        bands(ax, x, mean, lower=lower, upper=upper, color=COLOUR_OF[model], alpha=0.2, label=label, ls=style)


def points(ax, data, d, thin=1, window=None):
    """What was observed of an output, and what was held out; the axis is scaled to them."""
    rows = np.arange(0, len(data), thin)
    x, y = data.X[rows, 0], data.Y[rows, d]
    held = np.zeros(len(rows), bool) if data.held_out is None else _column(data.held_out, d)[rows]
    ax.plot(x[~held], y[~held], "o", color="black", ms=2.5, label="observed")
    if held.any():
        ax.plot(x[held], y[held], "x", color=COLOURS["purple"], ms=5, mew=1.3, label="held out")
    shown = data.Y[:, d] if window is None else data.Y[(data.X[:, 0] >= window[0]) & (data.X[:, 0] <= window[1]), d]
    low, high = np.nanmin(shown), np.nanmax(shown)
    ax.set(ylim=(low - 0.4 * (high - low), high + 0.4 * (high - low)), title=data.outputs[d])


def _column(held, d):
    return held if held.ndim == 1 else held[:, d]


def legend_below(axes, ncols=5):
    first = np.ravel(axes)[0]
    handles = dict(zip(*first.get_legend_handles_labels()[::-1], strict=True))
    first.figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=ncols)


def listed(values, form="{:.3g}"):
    return ", ".join(f"{name} {form.format(value)}" for name, value in values.items())


# %% [markdown]
# ## Three functions (§4.2.1)
#
# $y_1$ is a function of $x$, $y_2$ of $x$ and $y_1$, $y_3$ of $x$, $y_1$ and $y_2$, observed with noise of standard deviation 0.05
# ($y_2$'s formula has a bracket in the wrong place in the thesis, and its noise "variance" is a standard deviation). What is held out
# for scoring is a second observation of the same functions at the same inputs.

# %%
functions = chapter.load("xia-functions", n=settings.toys["n"], seed=seed)
TOY = {name: settings.toys[name] for name in ("steps", "gpar_steps")}
FUNCTIONS = dict(
    data="xia-functions", source=functions.source, models=["GPAR", "GPLAR"], noise=0.05, grid=200,
    kernels=dict(kind="linear+nonlinear", input_lengthscale=0.1, output_lengthscale=0.1),
    **TOY,
) | NATURAL  # fmt: skip
n = settings.toys["n"]
(fits,) = compare(
    "xia-4-functions",
    [FUNCTIONS | dict(options=dict(n=n, seed=seed), test_options=dict(seed=seed + 1))],
    functions.outputs,
)
with chapter.figure(
    "xia-fig-4-1",
    nrows=3,
    figsize=(8, 8),
    sharex=True,
    data=functions,
    alt="Three functions with noisy observations, and the means and bands of GPAR and GPLAR.",
) as axes:
    for d, ax in enumerate(axes):
        panel(ax, fits.x, fits.models, d)
        ax.plot(functions.extras["x"], functions.extras["truth"][:, d], color="black", lw=1, ls=":", label="truth")
        points(ax, functions, d)
        ax.set(ylabel=functions.outputs[d], title="")
    axes[-1].set(xlabel="x")
    legend_below(axes)

# %%
covered = pd.DataFrame({model: found.scores["coverage95"] for model, found in fits.models.items()})
later = covered.loc[["y2", "y3"]]
chapter.claim(
    "xia-4-c1",
    holds=bool((later["GPLAR"] >= 0.88).all() and (later["GPLAR"] > later["GPAR"]).all()),
    measured="95 % bands cover, of new observations, GPLAR "
    + listed(covered["GPLAR"], "{:.2f}")
    + "; GPAR "
    + listed(covered["GPAR"], "{:.2f}"),
)
covered.round(2)

# %% [markdown]
# ### Much noise, several data sets (Figure 4.2)
#
# With noise of standard deviation 0.5, GPAR is trained on several draws of the noise. The figure shows the two on which its error of $y_3$ is
# smallest and largest.

# %%
noisy = compare(
    "xia-4-noisy",
    [
        FUNCTIONS
        | dict(options=dict(n=n, noise_sd=0.5, seed=100 + r), test_options=dict(seed=200 + r))
        for r in range(max(2, settings.repeats // 2))
    ],
    functions.outputs,
)  # fmt: skip
third = pd.DataFrame(
    {
        f"{score} {model}": [one.models[model].scores.loc["y3", score] for one in noisy]
        for score in ("smse", "hll")
        for model in ("GPAR", "GPLAR")
    }
)
two = third["smse GPAR"].argmin(), third["smse GPAR"].argmax()
with chapter.figure(
    "xia-fig-4-2",
    nrows=3,
    ncols=2,
    figsize=(10, 8),
    sharex=True,
    sharey="row",
    data=functions,
    alt="GPAR on two data sets with the same functions and other noise.",
) as axes:
    for column, r in zip(axes.T, two, strict=True):
        drawn = chapter.load("xia-functions", n=n, noise_sd=0.5, seed=100 + int(r))
        for d, ax in enumerate(column):
            panel(ax, noisy[r].x, {"GPAR": noisy[r].models["GPAR"]}, d)
            ax.plot(drawn.extras["x"], drawn.extras["truth"][:, d], color="black", lw=1, ls=":", label="truth")
            points(ax, drawn, d)
            ax.set(title="")
        column[0].set(title=f"draw {r}: SMSE of y3 {third['smse GPAR'][r]:.2f}")
        column[-1].set(xlabel="x")
    for ax, name in zip(axes[:, 0], functions.outputs, strict=True):
        ax.set(ylabel=name)
    legend_below(axes)

# %%
spread = third[["hll GPAR", "hll GPLAR"]].std()
factor = third["smse GPAR"].max() / third["smse GPAR"].min()
chapter.claim(
    "xia-4-c2",
    holds=bool(spread["hll GPAR"] > spread["hll GPLAR"] and factor >= 1.5),
    measured=f"{len(third)} data sets: standard deviation of the log-likelihood of y3 {spread['hll GPAR']:.1f} (GPAR) and "
    f"{spread['hll GPLAR']:.1f} (GPLAR); GPAR's largest error of y3 is {factor:.2f} times its smallest, GPLAR's "
    f"{third['smse GPLAR'].max() / third['smse GPLAR'].min():.2f}",
)
third.describe().loc[["mean", "std", "min", "max"]].round(2)

# %% [markdown]
# ### Gaps, and where inducing inputs may lie (Figure 4.3)
#
# $y_1$ is missing on $[0.2, 0.4]$, $y_2$ on $[0.6, 0.8]$. Under strategy A inducing inputs are observations, so none can lie where an
# earlier output is missing; under strategy B they are GPAR's means on a grid. [Chapter 3](3-gplar) decides the claims about it.

# %%
gappy = {
    sd: chapter.load("xia-functions", n=max(20, n // 2), noise_sd=sd, missing=True, seed=seed) for sd in (0.01, 0.05)
}
strategies = compare(
    "xia-4-strategies",
    [
        FUNCTIONS | dict(options=dict(n=max(20, n // 2), noise_sd=sd, missing=True, seed=seed), models=["GPAR", model])
        for sd, model in ((0.01, "GPLAR, A"), (0.05, "GPLAR"))
    ],
    functions.outputs,
)
with chapter.figure(
    "xia-fig-4-3",
    nrows=3,
    ncols=2,
    figsize=(10, 8),
    sharex=True,
    sharey="row",
    data=list(gappy.values()),
    alt="Functions with gaps: GPLAR with inducing inputs from the observations, and from GPAR's means.",
) as axes:
    for column, fits, (sd, data) in zip(axes.T, strategies, gappy.items(), strict=True):
        for d, ax in enumerate(column):
            panel(ax, fits.x, fits.models, d, {"GPLAR, A": "GPLAR"})
            ax.plot(data.extras["x"], data.extras["truth"][:, d], color="black", lw=1, ls=":", label="truth")
            points(ax, data, d)
            ax.plot(
                fits.inducing_x,
                fits.models[list(fits.models)[1]].means[:, d],
                ".",
                color=ORANGE,
                ms=5,
                label="$\\mathbf{m}_l$",
            )
            ax.set(title="")
        column[0].set(title=f"strategy {'A' if sd == 0.01 else 'B'}, noise {sd}")
        column[-1].set(xlabel="x")
    for ax, name in zip(axes[:, 0], functions.outputs, strict=True):
        ax.set(ylabel=name)
    legend_below(axes[:, 1], ncols=6)

# %% [markdown]
# ## Draws from the model itself (§4.2.2)
#
# Three outputs drawn from a GPLAR with squared-exponential kernels, with noise of standard deviation 0.5 (Figure 4.4), and five with
# linear kernels over the outputs before, noise 1 on the first four and 0.1 on the last (Figure 4.5; the thesis says "large" and "small"). 100 points
# to train on, 100 to test.

# %%
SIZE = dict(train=settings.size, test=settings.size)
nonlinear = chapter.load("xia-gplar-nonlinear", seed=seed, **SIZE)
linear = chapter.load("xia-gplar-linear", seed=seed, **SIZE)
DRAWS = dict(source="synthetic", models=["GPAR", "GPLAR"], noise=0.1, grid=300) | NATURAL | TOY
NONLINEAR = DRAWS | dict(data="xia-gplar-nonlinear", kernels=dict(kind="nonlinear", input_lengthscale=0.1))
LINEAR = DRAWS | dict(data="xia-gplar-linear", kernels=dict(kind="linear", input_lengthscale=0.1))
(of_nonlinear,) = compare("xia-4-nonlinear", [NONLINEAR | dict(options=dict(seed=seed, **SIZE))], nonlinear.outputs)
(of_linear,) = compare("xia-4-linear", [LINEAR | dict(options=dict(seed=seed, **SIZE))], linear.outputs)


def side_by_side(identifier, fits, data, alt):
    """GPAR on the left, GPLAR on the right, a row for each output."""
    D = len(data.outputs)
    with chapter.figure(
        identifier, nrows=D, ncols=2, figsize=(10, 2.3 * D + 0.8), sharex=True, sharey="row", data=data, alt=alt
    ) as axes:
        for model, column in zip(("GPAR", "GPLAR"), axes.T, strict=True):
            for d, ax in enumerate(column):
                panel(ax, fits.x, {model: fits.models[model]}, d)
                points(ax, data, d)
                ax.set(title="", ylabel=data.outputs[d] if model == "GPAR" else "")
            column[0].set(title=model)
            column[-1].set(xlabel="x")
        axes[0, 0].figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


side_by_side("xia-fig-4-4", of_nonlinear, nonlinear, "Draws with nonlinear dependence: fits of GPAR and of GPLAR.")

# %%
covered = pd.DataFrame({model: found.scores["coverage95"] for model, found in of_nonlinear.models.items()})
later = covered.loc[["y2", "y3"]]
chapter.claim(
    "xia-4-c3",
    holds=bool((later["GPAR"] < 0.85).all() and (later["GPLAR"] >= 0.88).all()),
    measured="95 % bands (noise included) cover of the test points GPAR "
    + listed(covered["GPAR"], "{:.2f}")
    + "; GPLAR "
    + listed(covered["GPLAR"], "{:.2f}"),
    note="Bands of the author's GPAR are those of the function, without noise: see the claim on log-likelihoods.",
)

# %%
side_by_side("xia-fig-4-5", of_linear, linear, "Draws with linear dependence: fits of GPAR and of GPLAR.")

# %%
PRINTED = pd.DataFrame(
    {"GPAR, printed": [-200.290, -314.689, -353.180, -448.052, -54226.6], "GPLAR, printed": [-175.794, -490.632, -408.538, -347.413, -939.300]},
    index=linear.outputs,
)  # fmt: skip
gpar, latent = (of_linear.models[m].scores for m in ("GPAR", "GPLAR"))
table = pd.DataFrame({"GPAR without noise": gpar["hll_published"], "GPAR": gpar["hll"], "GPLAR": latent["hll"]}).join(
    PRINTED
)
chapter.table("xia-table-4-1", table.round(1), data=linear)
last, better = table.loc["y5"], (PRINTED["GPLAR, printed"] > PRINTED["GPAR, printed"]).tolist()
chapter.claim(
    "xia-4-c4",
    holds=bool(
        better == [True, False, False, True, True]
        and last["GPLAR"] > last["GPAR without noise"]
        and abs(last["GPAR without noise"]) >= 5 * abs(last["GPLAR"])
    ),
    measured=f"log-likelihood of y5: GPLAR {last['GPLAR']:.0f}, GPAR without its noise {last['GPAR without noise']:.0f}, with it "
    f"{last['GPAR']:.0f}; the printed table has GPLAR ahead on y1, y4, y5 and behind on y2, y3",
)

# %% [markdown]
# ### Noise from small to large (Figure 4.6)
#
# The data of Figure 4.4 at several noise levels, several data sets each (functions, noise and split are all drawn anew). GPLAR is trained with
# several seeds on the first of them: the thesis trains it once, on the ground that it always ends at the same prediction.

# %%
LEVELS_46 = settings.levels
grid = [
    NONLINEAR | dict(options=dict(noise_sd=level, seed=seed + r, **SIZE), models=["GPAR"], grid=2)
    for level in LEVELS_46
    for r in range(settings.repeats)
]
many_gpar = compare("xia-4-noise-gpar", grid, nonlinear.outputs)
many_gplar = compare(
    "xia-4-noise-gplar",
    [
        NONLINEAR | dict(options=dict(noise_sd=level, seed=seed, **SIZE), models=["GPLAR"], grid=2, seed=seed + s)
        for level in LEVELS_46
        for s in range(settings.gplar_seeds)
    ],
    nonlinear.outputs,
)


def by_level(fits, model, score, repeats):
    """`[levels, repeats, outputs]`"""
    values = [one.models[model].scores[score].to_numpy() for one in fits]
    return np.array(values).reshape(len(LEVELS_46), repeats, -1)


gpar_hll = {score: by_level(many_gpar, "GPAR", score, settings.repeats) for score in ("hll", "hll_published")}
gplar_hll = by_level(many_gplar, "GPLAR", "hll", settings.gplar_seeds)
with chapter.figure(
    "xia-fig-4-6",
    nrows=3,
    figsize=(8, 9),
    sharex=True,
    data=nonlinear,
    alt="Held-out log-likelihood of three outputs against the noise level, GPAR with and without noise, and GPLAR.",
) as axes:
    for d, ax in enumerate(axes):
        for score, colour, label in (
            ("hll", GREEN, "GPAR"),
            ("hll_published", COLOURS["grey"], "GPAR without noise"),
        ):
            low, middle, high = np.quantile(gpar_hll[score][..., d], [0.025, 0.5, 0.975], axis=1)
            bands(ax, LEVELS_46, middle, lower=low, upper=high, color=colour, alpha=0.18, label=label, ls="--")
        ax.plot(LEVELS_46, gplar_hll[:, 0, d], "-", color=RED, label="GPLAR")
        ax.plot(np.repeat(LEVELS_46, settings.gplar_seeds), gplar_hll[..., d].ravel(), ".", color=RED)
        ax.set(ylabel="log-likelihood", title=nonlinear.outputs[d], ylim=(-800, None))
    axes[-1].set(xlabel="standard deviation of the noise")
    legend_below(axes, ncols=3)

# %%
enough = np.array(LEVELS_46) >= 0.2
median = np.median(gpar_hll["hll"], axis=1)
width = np.subtract(*np.quantile(gpar_hll["hll"], [0.975, 0.025], axis=1))
above, near_zero = (gplar_hll[:, 0] >= median)[enough], gplar_hll[0, 0] - median[0]
upper = np.quantile(gpar_hll["hll"], 0.975, axis=1)
chapter.claim(
    "xia-4-c6",
    holds=bool((gplar_hll[:, 0] >= upper).all()),
    measured=f"GPLAR reaches the upper end of GPAR's band in {np.mean(gplar_hll[:, 0] >= upper):.0%} of levels and outputs, its median in "
    f"{above.mean():.0%} at noise of 0.2 or more; at the smallest noise GPLAR minus GPAR's median is "
    + listed(dict(zip(nonlinear.outputs, near_zero, strict=True)), "{:+.0f}"),
    note="GPAR is scored with its noise here, GPLAR on the first data set.",
)
growth = width[enough].mean(0)
chapter.claim(
    "xia-4-c7",
    holds=bool(growth[0] < growth[1] < growth[2]),
    measured="width of GPAR's 2.5 to 97.5 % band, mean over noise of 0.2 and more: "
    + listed(dict(zip(nonlinear.outputs, growth, strict=True)), "{:.0f}")
    + "; without noise in the density "
    + listed(
        dict(
            zip(
                nonlinear.outputs,
                np.subtract(*np.quantile(gpar_hll["hll_published"], [0.975, 0.025], axis=1))[enough].mean(0),
                strict=True,
            )
        ),
        "{:.0f}",
    ),
)
own = gplar_hll.std(1) / width
chapter.claim(
    "xia-4-c8",
    holds=bool(settings.gplar_seeds > 1 and (own <= 0.05).all()),
    measured=f"standard deviation over {settings.gplar_seeds} seeds of GPLAR, as a share of the width of GPAR's band: median "
    f"{np.median(own):.3f}, largest {own.max():.2f}",
)


# %%
def best_expected(variance):
    """Expected log-likelihood of 100 points of noise alone, under the true noise variance."""
    return -50 * (np.log(2 * np.pi * variance) + 1)


chapter.claim(
    "xia-4-c9",
    holds=bool(best_expected(0.2) >= -25),
    measured=f"best expected log-likelihood of 100 points: {best_expected(0.2):.1f} if 0.2 is a variance, {best_expected(0.2**2):.1f} if it is a "
    "standard deviation; the figure's GPLAR reaches about -25",
    note="No prediction can beat the noise: the axis is a standard deviation.",
    data=(),
)

# %% [markdown]
# ## Gaps at the end of the chain (§4.3.1)
#
# ### Electrodes (Figure 4.7, Table 4.2)
#
# Seven electrodes over one second (subject 337). F3, F4, F5 and F6 are observed throughout; of FZ, F1 and F2 the last 100 of 256 samples are
# held out. Every earlier output is observed inside the gaps (*closed downwards*). Kernels over the outputs are nonlinear only, as in the
# thesis. Beside GPAR and GPLAR with fixed inducing inputs (strategy B) we train inducing inputs tied to the posterior means (strategy C); the same
# *frozen*, that is put together once before training, as the author's code does by accident; two chains in opposite directions; and independent GPs.

# %%
eeg = chapter.load("eeg", electrodes=settings.electrodes.get("base"))
VARIANTS = (("GPAR", "GPLAR", "IGP"), ("GPLAR, C", "GPLAR, frozen"), ("bi-GPLAR",))
EEG = dict(
    data="eeg",
    source=eeg.source,
    options=dict(electrodes=settings.electrodes.get("base")),
    kernels=dict(kind="nonlinear", input_lengthscale=0.02),
)


def variants(name, outputs, natural=False, **point):
    """The fits of all variants to one data set, as if they were of one point, with GPLAR by natural gradients if asked."""
    parts = VARIANTS if settings.workers else [[model for part in VARIANTS for model in part]]
    grid = [point | dict(models=list(part)) for part in parts]
    more = [point | dict(models=["GPLAR"], rate=0.005, gamma=0.1)] if natural else []
    found = compare(name, grid + more, outputs)
    models = {model: fit for one in found[: len(grid)] for model, fit in one.models.items()}
    if natural:
        models["GPLAR, natural"] = found[-1].models["GPLAR"]
    return SimpleNamespace(**vars(found[0]) | dict(models=models))


of_eeg = variants("xia-4-eeg", eeg.outputs, natural=True, **EEG, **settings.base)
with chapter.figure(
    "xia-fig-4-7",
    nrows=3,
    figsize=(8, 8),
    sharex=True,
    data=eeg,
    alt="Three electrodes after 0.4 s: held-out samples, and the predictions of GPAR and GPLAR with bands.",
) as axes:
    for name, ax in zip(of_eeg.held, axes, strict=True):
        d = eeg.outputs.index(name)
        panel(ax, of_eeg.x, {m: of_eeg.models[m] for m in ("GPAR", "GPLAR")}, d)
        points(ax, eeg, d, settings.base["thin"], window=(0.4, 1.0))
        ax.set(ylabel="µV", xlim=(0.4, 1.0))
    axes[-1].set(xlabel="time (s)")
    legend_below(axes)


# %%
def score_table(fits, printed, smse="smse"):
    """SMSE and log-likelihoods of GPAR and GPLAR, those of GPAR with and without noise, beside the printed ones."""
    gpar, latent = (fits.models[m].scores for m in ("GPAR", "GPLAR"))
    table = pd.DataFrame(
        {
            "SMSE GPAR": gpar[smse],
            "SMSE GPLAR": latent[smse],
            "HLL GPAR": gpar["hll"],
            "HLL GPAR without noise": gpar["hll_published"],
            "HLL GPLAR": latent["hll"],
        }
    ).join(pd.DataFrame(printed, index=fits.held).add_prefix("printed: "))
    table.loc["mean"] = table.mean()
    return table


table = score_table(
    of_eeg,
    {
        "SMSE GPAR": [0.1340, 0.3285, 0.1536], "SMSE GPLAR": [0.1273, 0.3130, 0.1317], "HLL GPAR": [-135.7, -663.1, -132.4],
        "HLL GPLAR": [-141.3, -183.1, -136.6],
    },
)  # fmt: skip
chapter.table("xia-table-4-2", table.round(4), data=eeg)


def of_all(fits, *scores):
    """Means over the held-out outputs, a row for each variant."""
    return pd.DataFrame({m: f.scores[list(scores)].mean() for m, f in fits.models.items()}).T


errors = pd.DataFrame({model: found.scores["smse"] for model, found in of_eeg.models.items()})
errors.loc["mean"] = errors.mean()
errors.T.assign(bound=pd.Series({m: f.bound for m, f in of_eeg.models.items()})).round(3)

# %%
by_strategy = abs(errors.loc["mean", "GPLAR"] - errors.loc["mean", "GPLAR, C"])
lower = (errors["GPLAR"] < errors["GPAR"]).iloc[:3]
small = errors.loc["mean", "GPLAR"] <= errors.loc["mean", "GPAR"] + 0.02 and by_strategy <= 0.05
strict = lower.all() and 0.12 <= errors.loc["mean", "GPLAR"] <= 0.30
chapter.claim(
    "xia-4-c10",
    holds=bool(strict if profile == "paper" else small),
    measured="SMSE of FZ, F1, F2, mean: GPLAR "
    + ", ".join(f"{v:.3f}" for v in errors["GPLAR"])
    + "; GPAR "
    + ", ".join(f"{v:.3f}" for v in errors["GPAR"])
    + f"; tied inducing inputs {errors.loc['mean', 'GPLAR, C']:.3f}, frozen {errors.loc['mean', 'GPLAR, frozen']:.3f}. GPLAR is lower on "
    f"{lower.sum()} of 3 electrodes.",
)
ranks = of_eeg.models["GPLAR"].ranks["F1"].dropna().to_numpy()
when = of_eeg.test_x[of_eeg.held.index("F1")][: len(ranks)]
early, late = (float(coverage_of(ranks[part], [0.95])[0]) for part in (when < 0.9, when >= 0.9))
hll = {model: of_eeg.models[model].scores["hll"] for model in ("GPAR", "GPLAR")}
chapter.claim(
    "xia-4-c11",
    holds=bool(
        hll["GPLAR"]["F1"] > hll["GPAR"]["F1"]
        and (hll["GPLAR"] - hll["GPAR"])[["FZ", "F2"]].abs().max() <= 60
        and early >= 0.85
        and early > late
    ),
    measured=f"log-likelihood of F1: GPLAR {hll['GPLAR']['F1']:.0f}, GPAR {hll['GPAR']['F1']:.0f} (without noise "
    f"{of_eeg.models['GPAR'].scores.loc['F1', 'hll_published']:.0f}); FZ {hll['GPLAR']['FZ']:.0f} and {hll['GPAR']['FZ']:.0f}, F2 "
    f"{hll['GPLAR']['F2']:.0f} and {hll['GPAR']['F2']:.0f}; GPLAR's 95 % band of F1 covers {early:.0%} before 0.9 s and {late:.0%} after",
)

# %%
both_ways = pd.concat(
    {
        "Table 4.1": of_linear.models["GPAR"].scores[["hll", "hll_published"]],
        "Table 4.2": of_eeg.models["GPAR"].scores[["hll", "hll_published"]],
    },
    names=["table", "output"],
).set_axis(["with noise", "without"], axis=1)
gain = both_ways["with noise"] - both_ways["without"]
exploding = pd.Series({("Table 4.1", "y5"): -54226.6, ("Table 4.2", "F1"): -663.1})
chapter.claim(
    "xia-4-c5",
    holds=bool((gain[exploding.index] <= 100).all()),
    measured="; ".join(
        f"{output} of {table}: {both_ways.loc[(table, output), 'without']:.0f} without and {both_ways.loc[(table, output), 'with noise']:.0f} with "
        f"noise (printed {value:.0f})"
        for (table, output), value in exploding.items()
    )
    + f". Most that the noise adds: {gain.max():+.0f} ({gain.idxmax()[1]} of {gain.idxmax()[0]}); in Figure 4.6, at noise of 0.2 and more, "
    f"{np.median((gpar_hll['hll'] - gpar_hll['hll_published'])[enough]):+.0f} (median)",
    note="By its rule the claim falls if the noise adds more than 100 on the two"
    " outputs that explode in print. The next cell asks for the rest.",
)
both_ways.round(0)

# %% [markdown]
# Is it the noise, then, that makes the log-likelihood of F1 explode? Here is GPAR on the electrodes once more: the same fit, asked with posterior means passed on,
# which is what its layers read in training, and with draws of the functions passed on, each scored with the noise in the density and without. If the noise
# were the reason, the column with it would be close to GPLAR's score whatever is passed on.


# %%
def passing_run(source, options, thin, kernels, gpar_steps, samples, seed):
    """Log-likelihoods of GPAR on the electrodes, by what it passes on and scores."""
    from mogp import MultiOutputData
    from mogp.book.runs.chains import load_rows
    from mogp.kernels import LayerKernels
    from mogp.models import GPAR
    from mogp.training import fit

    whole = load_rows("eeg", source, options, thin)
    data = whole.train.data
    held = MultiOutputData.from_arrays(
        whole.X,
        np.where(whole.held_out, whole.Y, np.nan),
        names=data.names,
    )
    model = GPAR(data, LayerKernels(1, **kernels), starts=1, scaling=None)
    fit(model, data, steps=gpar_steps, progress=False)
    found = {}
    for passes in ("means", "functions"):
        model.passes = passes  # the layers are the same: both read means in training
        for noise in (True, False):
            log_p = model.predict_log_density(
                held,
                samples,
                seed,
                noise=noise,
                matched=True,
            )
            scores = {
                name: float(
                    np.sum(values),
                )
                for name, values in log_p.items()
                if len(values)
            }
            found[f"{passes}, {'with' if noise else 'without'} noise"] = scores
    return found


passing = passing_run(
    eeg.source,
    EEG["options"],
    settings.base["thin"],
    EEG["kernels"],
    settings.base["gpar_steps"],
    settings.paths,
    seed,
)
passing = pd.DataFrame(passing).join(
    pd.DataFrame(
        {
            "GPLAR": hll["GPLAR"],
            "printed GPAR": pd.Series(
                {"FZ": -135.7, "F1": -663.1, "F2": -132.4},
            ),
        },
    ),
)
passing.round(0)

# %% [markdown]
# ### Exchange rates (Figure 4.8, Table 4.3)
#
# Ten currencies and three metals against the dollar in 2007. CAD, JPY and AUD come last and have gaps of 51, 101 and 151 days. Rational
# quadratic kernels, linear and nonlinear terms over the outputs.

# %%
rates = chapter.load("exchange", currencies=settings.currencies)
RATES = dict(
    data="exchange", source=rates.source, options=dict(currencies=settings.currencies),
    kernels=dict(kind="linear+nonlinear", nonlinear="rq", input_lengthscale=0.1),
)  # fmt: skip
of_rates = variants("xia-4-exchange", rates.outputs, natural=settings.natural, **RATES, **settings.rates)
with chapter.figure(
    "xia-fig-4-8",
    nrows=3,
    figsize=(8, 8),
    sharex=True,
    data=rates,
    alt="Three exchange rates of 2007 with gaps: held-out days, and the predictions of GPAR and GPLAR with bands.",
) as axes:
    for name, ax in zip(of_rates.held, axes, strict=True):
        d = rates.outputs.index(name)
        panel(ax, of_rates.x, {m: of_rates.models[m] for m in ("GPAR", "GPLAR")}, d)
        points(ax, rates, d, settings.rates["thin"])
        ax.set(ylabel="US dollars")
        ax.ticklabel_format(useOffset=False)
    axes[-1].set(xlabel="year")
    legend_below(axes)

# %%
PRINTED_43 = {
    "SMSE GPAR": [0.0215, 0.0170, 0.2089], "SMSE GPLAR": [0.0439, 0.0234, 0.0685], "HLL GPAR": [148.60, 843.18, 523.97],
    "HLL GPLAR": [153.95, 860.95, 464.58],
}  # fmt: skip
table = score_table(of_rates, PRINTED_43, smse="smse_train")
for model in ("GPLAR", "GPAR"):
    by_test = of_rates.models[model].scores["smse"]
    table.insert(2, f"SMSE {model}, test mean", [*by_test, by_test.mean()])
chapter.table("xia-table-4-3", table.round(4), data=rates)

# %%
errors = pd.DataFrame({model: found.scores["smse_train"] for model, found in of_rates.models.items()})
errors.loc["mean"] = errors.mean()
cad, jpy, aud = of_rates.held
chapter.claim(
    "xia-4-c12",
    holds=bool(errors.loc[aud, "GPLAR"] < 0.7 * errors.loc[aud, "GPAR"] and errors.loc[[cad, jpy], "GPLAR"].max() < 0.15),
    measured="SMSE (training mean) of CAD, JPY, AUD, mean: GPLAR "
    + ", ".join(f"{v:.3f}" for v in errors["GPLAR"])
    + "; GPAR "
    + ", ".join(f"{v:.3f}" for v in errors["GPAR"]),
)  # fmt: skip
split = rates.train.data
ratio = {}
for name in of_rates.held:
    d = rates.outputs.index(name)
    y = rates.Y[rates.held_out[:, d], d]
    ratio[name] = float(np.mean((y - split.outputs[d].Y.mean()) ** 2) / y.var())
yen = rates.Y[:, rates.outputs.index(jpy)]
implied = np.sqrt(0.0170 * np.var(yen[rates.held_out[:, rates.outputs.index(jpy)]]))
daily = np.median(np.abs(np.diff(yen)))
chapter.claim(
    "xia-4-c13",
    holds=bool(implied >= daily),
    measured="mean squared distance of the held-out targets to the training mean over their variance: "
    + listed(ratio, "{:.4g}")
    + f"; by the variance of the test targets the printed 0.0170 of JPY would mean an error of {implied:.1e} dollars over a gap of five months, "
    f"less than the median change from one day to the next, {daily:.1e}; by the training mean {implied * np.sqrt(ratio[jpy]):.1e}",
    note="Table 4.3 gives both; the printed values are close to those against the training mean.",
    data=rates,
)
scores = {model: of_rates.models[model].scores for model in ("GPAR", "GPLAR")}
wider = scores["GPLAR"]["sd_elsewhere"] / scores["GPAR"]["sd_elsewhere"]
difference = (scores["GPLAR"]["hll"] - scores["GPAR"]["hll"])[[cad, jpy]]
chapter.claim(
    "xia-4-c14",
    holds=bool(wider.mean() > 1 and (difference >= -30).all()),
    measured="standard deviation outside the gaps, GPLAR over GPAR: "
    + listed(wider, "{:.2f}")
    + "; log-likelihood, GPLAR minus GPAR: "
    + listed(scores["GPLAR"]["hll"] - scores["GPAR"]["hll"], "{:+.1f}"),
)
errors.T.round(4)

# %% [markdown]
# ### GPAR's errors on the exchange rates from other starts
#
# GPAR has no random numbers in training, so one might expect its printed errors. But its evidence has many maxima, one regression after the other
# chooses among them, and the author's start values are not known for certain (the public package reads the same number as a lengthscale of the linear
# kernel that GPLAR's code reads as its variance). The table has GPAR from other start values of the linear variances, with
# (`replace`) and without passing on posterior means; below it are recorded errors of the package itself, `gpar` 0.3.2 with the settings of the author's
# notebooks (`data/peers/gpar.csv`, by `benchmarks/gaps_peer.py`).


# %%
def gpar_run(source, thin, currencies, linear_variance, replace, gpar_steps, samples, seed):
    """GPAR on the exchange rates: log evidence, and errors by currency against the training mean."""
    from mogp.book.runs.chains import load_rows
    from mogp.book.runs.mixtures import Mixture
    from mogp.kernels import LayerKernels
    from mogp.metrics import smse
    from mogp.models import GPAR
    from mogp.training import fit

    whole = load_rows("exchange", source, dict(currencies=currencies), thin)
    kernels = LayerKernels(1, nonlinear="rq", input_lengthscale=0.1, linear_variance=linear_variance)
    model = GPAR(whole.train.data, kernels, replace=replace, starts=1, scaling=None)
    fit(model, whole.train.data, steps=gpar_steps, progress=False)
    mean = Mixture.of(model, whole.X, samples, seed).mean.mean(0)
    errors = {}
    for d, own in enumerate(whole.train.data.outputs):
        held = whole.held_out[:, d]
        if held.any():
            errors[own.name] = smse(whole.Y[held, d], mean[held, d], reference="train", y_train=own.Y[:, 0])
    return {"evidence": model.elbo(), **errors}


starts = sweep(
    gpar_run,
    [
        dict(
            source=rates.source, currencies=settings.currencies, linear_variance=v, replace=r, samples=settings.paths, seed=seed,
            thin=settings.rates["thin"], gpar_steps=settings.rates["gpar_steps"],
        )
        for v, r in settings.starts
    ],
    name="xia-4-gpar-starts", workers=settings.workers, progress=False,
)  # fmt: skip
table = starts[["replace", "linear_variance", "evidence", *of_rates.held]].rename(
    columns={
        "replace": "passes on means",
        "linear_variance": "linear variance at the start",
        "evidence": "log evidence (nats)",
    }
)
table["mean"] = starts[of_rates.held].mean(axis=1)
peer = pd.read_csv(data_folder() / "peers" / "gpar.csv").query("data == 'exchange'")
peer = peer.pivot_table(index=["steps", "replace", "version"], columns="output", values="SMSE").reset_index()
peer = peer.rename(columns={"replace": "passes on means"}).assign(mean=lambda t: t.filter(like="USD/").mean(axis=1))
peer.insert(0, "program", "gpar " + peer.pop("version") + " (recorded), " + peer.pop("steps").astype(str) + " steps")
table.insert(0, "program", "mogp")
chapter.table(
    "xia-finding-gpar-starts", pd.concat([table, peer], ignore_index=True)[table.columns].round(4), data=rates
)
spans = {name: (starts[name].min(), starts[name].max()) for name in of_rates.held}
near = {
    name: np.mean(np.abs(starts[name] / printed - 1) <= 0.2)
    for name, printed in zip(of_rates.held, PRINTED_43["SMSE GPAR"], strict=True)
}
chapter.claim(
    "xia-4-f1",
    holds=bool(all(high >= 1.2 * low for low, high in spans.values())),
    measured="smallest and largest SMSE over the start values: "
    + ", ".join(f"{name} {low:.3f} to {high:.3f}" for name, (low, high) in spans.items())
    + "; share of starts within 20 % of the printed value: "
    + listed(near, "{:.0%}")
    + "; recorded errors of gpar itself: "
    + ", ".join(f"{name} {peer[name].min():.3f} to {peer[name].max():.3f}" for name in of_rates.held),
    data=rates,
)

# %% [markdown]
# ### Are the bands right?
#
# The share of held-out targets inside central intervals, against the share the intervals promise: below the diagonal bands are too narrow.


# %%
def pooled(fits, model):
    return fits.models[model].ranks.to_numpy().ravel()[np.isfinite(fits.models[model].ranks.to_numpy().ravel())]


with chapter.figure(
    "xia-finding-coverage",
    ncols=2,
    figsize=(10, 5.6),
    data=(eeg, rates),
    alt="Coverage against nominal level of all variants, for electrodes and exchange rates.",
) as axes:
    for ax, fits, title in zip(axes, (of_eeg, of_rates), ("electrodes", "exchange rates"), strict=True):
        curves = {model: (LEVELS, coverage_of(pooled(fits, model))) for model in fits.models}
        calibration(ax, curves, colours=COLOUR_OF, legend=False)
        ax.set(title=title)
    legend_below(axes, ncols=4)

# %%
coverage = pd.DataFrame(
    {
        title: {model: float(coverage_of(pooled(fits, model), [0.9])[0]) for model in fits.models}
        for title, fits in (("electrodes", of_eeg), ("exchange rates", of_rates))
    }
)
chapter.claim(
    "xia-4-f2",
    holds=bool(coverage.loc["GPLAR"].between(0.8, 0.97).all()),
    measured="90 % bands cover, electrodes and exchange rates: "
    + "; ".join(f"{model} {a:.2f} and {b:.2f}" for model, (a, b) in coverage.iterrows()),
)
coverage.round(2)

# %% [markdown]
# Bands of GPLAR are about right on the electrodes and somewhat too wide on the exchange rates; independent GPs are far too sure on the latter. If one
# variant is to be recommended for gaps at the end of a chain, it is GPLAR with fixed inducing inputs, started at GPAR and trained by natural gradients: it has the highest bound,
# which needs no held-out data to see. (We had seen its coverage too.) Its weakness: with few data and kernels that GPAR took to extremes, natural steps diverge; then take Adam.

# %% [markdown]
# ## Gaps at the beginning of the chain (§4.3.2)
#
# Now F3 and F4, the *first* outputs, have gaps in which all later ones are observed (*closed upwards*), beside gaps of F1 and F2 at the end
# of the chain. Only GPLAR can use what comes later. Kernels have linear and nonlinear terms over the outputs.

# %%
GAPS = (
    dict(data="eeg", source=eeg.source, kernels=dict(kind="linear+nonlinear", input_lengthscale=0.02)) | settings.gaps
)
CROSS = GAPS["kernels"] | dict(inputs=False, cross_from=2)
PATTERNS = {
    name: dict(missing=name, electrodes=settings.electrodes.get(name)) for name in ("failure", "cross-channel", "long")
}
failure, cross, far = (chapter.load("eeg", **options) for options in PATTERNS.values())
TRIO = ["GPAR", "GPLAR", "GPLAR, from zero"]
(plain,) = compare("xia-4-failure", [GAPS | dict(options=PATTERNS["failure"], models=TRIO[:2])], failure.outputs)
short, crossed = compare(
    "xia-4-cross-channel",
    [
        GAPS | dict(options=PATTERNS["cross-channel"], models=TRIO),
        GAPS | dict(options=PATTERNS["cross-channel"], models=["GPLAR"], kernels=CROSS),
    ],
    cross.outputs,
)
(longer,) = compare("xia-4-long-gap", [GAPS | dict(options=PATTERNS["long"], models=[TRIO[0], TRIO[2]])], far.outputs)
kinds = pd.Series({name: gap_kind(failure.held_out, failure.outputs.index(name)) for name in plain.held}, name="gap")


def gap_panels(axes, fits, data, outputs, models):
    for ax, name in zip(axes, outputs, strict=True):
        d = data.outputs.index(name)
        panel(ax, fits.x, {m: fits.models[m] for m in models}, d, {"GPLAR, from zero": "GPLAR"})
        points(ax, data, d, settings.gaps["thin"])
        ax.set(ylabel="µV")


with chapter.figure(
    "xia-fig-4-9",
    nrows=4,
    ncols=2,
    figsize=(11, 9),
    sharex=True,
    data=(failure, cross),
    alt="Left: gaps at both ends of the chain, full kernels. Right: later outputs read other outputs only.",
) as axes:
    gap_panels(axes[:, 0], plain, failure, plain.held, TRIO[:2])
    gap_panels(axes[:, 1], crossed, cross, ("F3", "F4", "F5", "F1"), ["GPLAR"])
    for side, title in zip(axes[0], ("(a) full kernels", "(b) no time kernels from F5 on"), strict=True):
        side.set(title=f"{title}: F3")
    for ax in axes[-1]:
        ax.set(xlabel="time (s)")
    legend_below(axes)

# %%
of_plain = plain.models["GPLAR"].scores
chapter.claim(
    "xia-4-c15",
    holds=bool(
        of_plain.loc[["F1", "F2"], "smse"].max() < of_plain.loc[["F3", "F4"], "smse"].min()
        and of_plain.loc[["F3", "F4"], "coverage95"].max() < 0.7
    ),
    measured="SMSE of GPLAR " + listed(of_plain["smse"]) + "; coverage of its 95 % bands " + listed(of_plain["coverage95"], "{:.2f}"),
)  # fmt: skip
full, only = (fits.models["GPLAR"].scores for fits in (short, crossed))
chapter.claim(
    "xia-4-c16",
    holds=bool(only["smse"].mean() < full["smse"].mean() and only["sd_elsewhere"].mean() > full["sd_elsewhere"].mean()),
    measured=f"mean SMSE of F3 and F4: {only['smse'].mean():.3g} without time kernels from F5 on, {full['smse'].mean():.3g} with them; standard "
    f"deviation outside the gaps {only['sd_elsewhere'].mean():.2f} and {full['sd_elsewhere'].mean():.2f} µV",
)
pd.DataFrame({"gap": kinds, **{f"SMSE {m}": plain.models[m].scores["smse"] for m in TRIO[:2]}, **{f"95 % covers, {m}": plain.models[m].scores["coverage95"] for m in TRIO[:2]}}).round(3)  # fmt: skip

# %%
with chapter.figure(
    "xia-fig-4-10",
    nrows=2,
    ncols=2,
    figsize=(11, 6),
    sharex=True,
    sharey="row",
    data=(cross, far),
    alt="Posterior means started at zero inside the gaps: a short gap, and a long one.",
) as axes:
    for column, fits, data, title in zip(
        axes.T, (short, longer), (cross, far), ("(a) short gap", "(b) long gap"), strict=True
    ):
        gap_panels(column, fits, data, ("F3", "F4"), ("GPAR", "GPLAR, from zero"))
        column[0].set(title=f"{title}: F3")
        column[-1].set(xlabel="time (s)")
    legend_below(axes)

# %%
zero_short, zero_long = (fits.models["GPLAR, from zero"] for fits in (short, longer))
flat = {}
for name in longer.held:
    d = far.outputs.index(name)
    inside = np.isin(longer.x, far.X[far.held_out[:, d], 0])
    flat[name] = zero_long.curves[0][inside, d].std() / far.Y[far.held_out[:, d], d].std()
chapter.claim(
    "xia-4-c17",
    holds=bool(
        zero_short.scores["smse"].mean() < full["smse"].mean()
        and np.mean(list(flat.values())) < 0.5
        and max(zero_short.scores["coverage95"].mean(), zero_long.scores["coverage95"].mean()) < 0.8
    ),
    measured=f"mean SMSE in the short gap {zero_short.scores['smse'].mean():.3g} from zero, {full['smse'].mean():.3g} from GPAR; standard deviation of "
    "the predicted mean over that of the truth in the long gap "
    + listed(flat, "{:.2f}")
    + f"; 95 % bands cover {zero_short.scores['coverage95'].mean():.0%} and {zero_long.scores['coverage95'].mean():.0%}",
)

# %% [markdown]
# ## Two chains in opposite directions (§4.3.3)
#
# Subject 345, order FZ, F1, …, F6, each electrode with a gap somewhere. The bi-directional model averages a chain in this order and one in the reverse.
# In (b) only the first output of each chain reads the time.

# %%
bidirectional = chapter.load("eeg", subject=345, missing="bidirectional")
BOTH = GAPS | dict(options=dict(subject=345, missing="bidirectional"))
with_time, without_time = compare(
    "xia-4-both-ways",
    [
        BOTH | dict(models=["GPAR", "GPAR backward", "bi-GPLAR"]),
        BOTH | dict(models=["bi-GPLAR"], kernels=GAPS["kernels"] | dict(inputs=False)),
    ],
    bidirectional.outputs,
)
with chapter.figure(
    "xia-fig-4-11",
    nrows=7,
    ncols=2,
    figsize=(11, 15),
    sharex=True,
    sharey="row",
    data=bidirectional,
    alt="Seven electrodes with gaps: GPAR in both directions and the bi-directional model, with and without time kernels.",
) as axes:
    for column, models in zip(
        axes.T,
        (
            {m: with_time.models[m] for m in ("GPAR", "GPAR backward", "bi-GPLAR")},
            {"bi-GPLAR": without_time.models["bi-GPLAR"]},
        ),
        strict=True,
    ):
        for d, ax in enumerate(column):
            panel(ax, with_time.x, models, d)
            points(ax, bidirectional, d, settings.gaps["thin"])
            ax.set(ylabel="µV")
        column[-1].set(xlabel="time (s)")
    axes[0, 0].set(title="(a) with time kernels: FZ")
    axes[0, 1].set(title="(b) time for the first output only: FZ")
    legend_below(axes)

# %%
errors = pd.DataFrame({m: f.scores["smse"] for m, f in with_time.models.items()})
errors["bi-GPLAR, no time"] = without_time.models["bi-GPLAR"].scores["smse"]
two_ways = (
    with_time.models["bi-GPLAR"].scores["coverage95"].mean(),
    without_time.models["bi-GPLAR"].scores["coverage95"].mean(),
)
chapter.claim(
    "xia-4-c18",
    holds=bool(
        errors["bi-GPLAR"].mean() < errors["GPAR"].mean()
        and errors["bi-GPLAR, no time"].mean() <= errors["bi-GPLAR"].mean()
        and max(two_ways) < 0.95
    ),
    measured="mean SMSE over the gaps: "
    + listed(errors.mean())
    + f"; 95 % bands cover {two_ways[0]:.0%} with and {two_ways[1]:.0%} without time kernels",
)
errors.T.assign(mean=errors.mean()).round(3)

# %% [markdown]
# ### Exchange rates (Figure 4.12)
#
# MXN and NZD come first and have a gap of 25 days early in the year.

# %%
back = None if settings.back is None else list(settings.back)
reverse = chapter.load("exchange", missing="bidirectional", currencies=back)
(on_rates,) = compare(
    "xia-4-both-ways-exchange",
    [RATES | settings.both | dict(options=dict(missing="bidirectional", currencies=back), models=["GPAR", "bi-GPLAR"])],
    reverse.outputs,
)
with chapter.figure(
    "xia-fig-4-12",
    nrows=2,
    figsize=(8, 5.6),
    sharex=True,
    data=reverse,
    alt="MXN and NZD with a gap early in 2007: GPAR and the bi-directional model.",
) as axes:
    for d, ax in enumerate(axes):
        panel(ax, on_rates.x, on_rates.models, d)
        points(ax, reverse, d, settings.both["thin"])
        ax.set(ylabel="US dollars", xlim=(2007.0, 2007.4))
        ax.ticklabel_format(useOffset=False)
    axes[-1].set(xlabel="year")
    legend_below(axes)
mean_error = {m: f.scores["smse"].mean() for m, f in on_rates.models.items()}
chapter.claim(
    "xia-4-c19",
    holds=bool(mean_error["bi-GPLAR"] < mean_error["GPAR"]),
    measured="mean SMSE of MXN and NZD in the gap: " + listed(mean_error),
)

# %% [markdown]
# ### Six models, several subjects, several years (Figure 4.13)
#
# Every electrode has a gap: FZ, F1 and F2 closed upwards, F3 and F4 in between, F5 and F6 closed downwards; of the exchange rates MXN and NZD closed
# upwards, JPY and AUD closed downwards. The thesis averages five subjects and five years that it does not name; here are those of the settings, at `long` all that
# there are. The deep GP has two layers of which the hidden one is five wide, a choice of ours.

# %%
SIX = ("IGP", "GPAR", "GPAR backward", "DGP", "GPLAR", "bi-GPLAR")
combined = chapter.load("eeg", missing="combined")
combined_rates = chapter.load("exchange", missing="combined", currencies=back)
on_subjects = compare(
    "xia-4-subjects",
    [
        GAPS | settings.many | dict(models=list(SIX), options=dict(missing="combined", subject=s))
        for s in settings.subjects
    ],
    combined.outputs,
)
in_years = compare(
    "xia-4-years",
    [RATES | settings.many | dict(models=list(SIX), options=dict(missing="combined", currencies=back, year=y)) for y in settings.years],
    combined_rates.outputs,
)  # fmt: skip


def stacked(fits, labels, score="smse"):
    """A row for each subject or year and model, a column for each output, and their mean."""
    parts = {
        label: pd.DataFrame({m: one.models[m].scores[score] for m in SIX}).T
        for label, one in zip(labels, fits, strict=True)
    }
    whole = pd.concat(parts, names=["case", "model"])
    whole["total"] = whole.mean(axis=1)
    return whole


by_subject, by_year = stacked(on_subjects, settings.subjects), stacked(in_years, settings.years)
averages = {
    "exchange rates": by_year.groupby("model").mean().loc[list(SIX)],
    "electrodes": by_subject.groupby("model").mean().loc[list(SIX)],
}
MARKERS = dict(zip(SIX, "vsDXo*", strict=True))
with chapter.figure(
    "xia-fig-4-13",
    ncols=2,
    figsize=(11, 4.8),
    data=(combined, combined_rates),
    partial="other subjects and years than the thesis's, which it does not name",
    alt="Mean error of six models by output, for exchange rates and electrodes.",
) as axes:
    for ax, (title, table), count in zip(
        axes, averages.items(), (len(settings.years), len(settings.subjects)), strict=True
    ):
        for k, (model, row) in enumerate(table.iterrows()):
            place = np.arange(len(row)) + 0.1 * (k - 2.5)
            ax.plot(place, row, MARKERS[model], color=COLOUR_OF[model], ms=7, label=model)
        ax.axhline(1.0, color=COLOURS["grey"], lw=1, ls="--", label="mean of the held-out targets")
        ax.set(xticks=range(len(table.columns)), yscale="log", ylabel="SMSE")
        ax.set_xticklabels([c.removeprefix("USD/") for c in table.columns])
        of = "years" if title == "exchange rates" else "subjects"
        ax.set(title=f"{title}, mean of {count} {of}")
    legend_below(axes, ncols=4)

# %%
eeg_mean, rate_mean = averages["electrodes"], averages["exchange rates"]
total = {name: table["total"] for name, table in averages.items()}
first, last_two = ["FZ", "F1", "F2"], ["F5", "F6"]
between = sorted(total["electrodes"][["GPAR", "GPAR backward"]])
chapter.claim(
    "xia-4-c20",
    holds=bool(
        (eeg_mean[first].idxmin() == "GPAR backward").all()
        and (eeg_mean.loc["GPAR", last_two] < eeg_mean.loc["GPAR backward", last_two]).all()
        and between[0] <= total["electrodes"]["bi-GPLAR"] <= between[1]
    ),
    measured=f"{len(settings.subjects)} subjects, mean SMSE: " + listed(total["electrodes"]) + "; best on FZ, F1, F2: "
    + ", ".join(eeg_mean[first].idxmin()) + f"; F5, F6: GPAR {eeg_mean.loc['GPAR', last_two].mean():.3g}, backward "
    f"{eeg_mean.loc['GPAR backward', last_two].mean():.3g}",
)  # fmt: skip
best = rate_mean[[c for c in rate_mean.columns if c[-3:] in ("NZD", "JPY", "AUD")]].idxmin()
chapter.claim(
    "xia-4-c21",
    holds=bool(total["exchange rates"].idxmin() == "bi-GPLAR" and (best == "bi-GPLAR").sum() >= 2),
    measured=f"{len(settings.years)} years, mean SMSE: "
    + listed(total["exchange rates"])
    + "; best on NZD, JPY, AUD: "
    + ", ".join(best),
)
chapter.claim(
    "xia-4-c22",
    holds=bool(all(t["bi-GPLAR"] < t["GPLAR"] for t in total.values())),
    measured="mean SMSE, bi-directional and one-directional: "
    + "; ".join(f"{name} {t['bi-GPLAR']:.3g} and {t['GPLAR']:.3g}" for name, t in total.items()),
)
chapter.claim(
    "xia-4-c23",
    holds=bool(all(t[m] > max(1, t["GPLAR"]) for t in total.values() for m in ("IGP", "DGP"))),
    measured="mean SMSE of IGP, DGP, GPLAR: "
    + "; ".join(f"{name} {t['IGP']:.3g}, {t['DGP']:.3g}, {t['GPLAR']:.3g}" for name, t in total.items()),
)
pd.concat(averages, names=["data"]).round(2)

# %% [markdown]
# A mean of ratios is at the mercy of a gap in which the truth is nearly flat. The medians over subjects and years, and how often a
# model is best:

# %%
summary = pd.concat(
    {
        name: pd.DataFrame(
            {
                "median SMSE": table["total"].groupby("model").median(),
                "best in (cases)": table["total"].unstack("model").idxmin(axis=1).value_counts(),
                "median coverage of 90 % bands": stacked(fits, labels, "coverage90")["total"].groupby("model").median(),
            }
        ).loc[list(SIX)]
        for name, table, fits, labels in (
            ("electrodes", by_subject, on_subjects, settings.subjects),
            ("exchange rates", by_year, in_years, settings.years),
        )
    },
    names=["data", "model"],
).fillna({"best in (cases)": 0})
chapter.table("xia-finding-subjects-years", summary.round(3).reset_index(), data=(combined, combined_rates))

# %% [markdown]
# ## Labels among the outputs (§4.4)
#
# A layer of GPLAR passes on a latent value, and any likelihood may read it. So binary labels, classes and real numbers can stand in
# one chain. GPAR cannot do this: it would have to treat a label as a number.
#
# ### A gap in the labels (Figure 4.14)
#
# Two real and two binary outputs are drawn from a chain, $y_3, y_4 \sim \mathrm{Bernoulli}(\sigma(h))$ with
# $\sigma(h) = 1/(1 + e^{-h})$ (the thesis prints $1 + e^{h}$). The labels of $y_4$ are missing on $[1.0, 1.5]$. (The text says
# $[0.5, 1.0]$; its figure and the author's notebook have $[1.0, 1.5]$.) One draw has linear dependence on the latents before it, the
# other nonlinear. Each is fitted by independent GPs and by GPLAR with linear and with nonlinear kernels over the outputs.
#
# 150 labels say little about a probability, so one draw decides nothing. The verdicts are on means over all draws of the
# settings; the figure shows the first.


# %%
def swept_labels(function, points, name):
    return sweep(function, points, name=name, workers=settings.workers, progress=False)


DEPENDENCES = ("linear", "nonlinear")
hetero = {kind: chapter.load("xia-hetero", dependence=kind, seed=seed) for kind in DEPENDENCES}
label_fits = swept_labels(
    labels_run,
    [
        dict(dependence=kind, models=list(LABEL_MODELS), seed=seed + draw, **LABELS.curves)
        for kind in DEPENDENCES
        for draw in range(LABELS.draws)
    ],
    "chain-labels",
)
LABEL_COLOURS = dict(zip(LABEL_MODELS, (COLOURS["blue"], COLOURS["purple"], COLOURS["green"]), strict=True))
with chapter.figure(
    "xia-fig-4-14",
    nrows=2,
    ncols=3,
    figsize=(10, 6.2),
    sharex=True,
    sharey=True,
    data=list(hetero.values()),
    alt="Probability of output 4 with bands, independent GPs and two GPLARs, on a linear and on a nonlinear draw.",
) as axes:
    for row, kind in zip(axes, DEPENDENCES, strict=True):
        fit, data = label_fits[label_fits["dependence"] == kind].iloc[0], hetero[kind]
        for ax, name, *curve in zip(row, LABEL_MODELS, fit["mean"], fit["lower"], fit["upper"], strict=True):
            mean, lower, upper = (np.asarray(c) for c in curve)
            colour = LABEL_COLOURS[name]
            ax.axvspan(1.0, 1.5, color=COLOURS["grey"], alpha=0.13, lw=0, label="labels missing")
            bands(ax, np.array(fit["x"]), mean, lower=lower, upper=upper, color=colour, alpha=0.25)
            ax.plot(fit["x"], fit["truth"], color=COLOURS["orange"], lw=1.3, label="truth")
            ax.plot(data.X[:, 0], data.train.Y[:, 3], "|", color="black", ms=6, label="labels")
            ax.set(title=f"{kind} draw, IGP" if name == "IGP" else f"{kind} draw\n{name} kernels")
        row[0].set(ylabel="probability of $y_4 = 1$", ylim=(-0.06, 1.06))
    for ax in axes[-1]:
        ax.set(xlabel="x")
    handles, names = axes[0, 0].get_legend_handles_labels()
    kept = [n for n, name in enumerate(names) if name in ("truth", "labels", "labels missing")]
    axes[0, 0].figure.legend(
        [handles[n] for n in kept], [names[n] for n in kept], loc="outside lower center", ncols=len(kept)
    )

# %%


def gap_scores(fit):
    """Mean absolute error of each model's probability inside the gap, and mean distance of its mean from one half."""
    gap = (np.array(fit["x"]) >= 1.0) & (np.array(fit["x"]) <= 1.5)
    mean, truth = np.array(fit["mean"])[:, gap], np.array(fit["truth"])[gap]
    return np.abs(mean - truth).mean(1), np.abs(mean - 0.5).mean(1)


gap_errors = pd.DataFrame([gap_scores(fit)[0] for _, fit in label_fits.iterrows()], columns=LABEL_MODELS)
gap_errors.insert(0, "draw", label_fits["dependence"])
label_bounds = pd.DataFrame(label_fits["bounds"].tolist(), columns=LABEL_MODELS).round(0)
from_half = np.array([gap_scores(fit)[1][0] for _, fit in label_fits.iterrows()])
gap_means = gap_errors.groupby("draw").mean()
wins = (
    (gap_errors.loc[gap_errors["draw"] == k, f"GPLAR, {k}"] < gap_errors.loc[gap_errors["draw"] == k, "IGP"]).sum()
    for k in DEPENDENCES
)
chapter.claim(
    "xia-4-c24",
    holds=bool(
        from_half.mean() < 0.1 and all(gap_means.loc[k, f"GPLAR, {k}"] < gap_means.loc[k, "IGP"] for k in DEPENDENCES)
    ),
    measured=f"independent GPs are {from_half.mean():.3f} from one half inside the gap; mean absolute error there, GPLAR / IGP: "
    + "; ".join(
        f"{k} draws {gap_means.loc[k, f'GPLAR, {k}']:.3f} / {gap_means.loc[k, 'IGP']:.3f} (GPLAR better on {won} of {LABELS.draws})"
        for k, won in zip(DEPENDENCES, wins, strict=True)
    ),
)
nonlinear = gap_means.loc["nonlinear"]
chapter.claim(
    "xia-4-c25",
    holds=bool(nonlinear["GPLAR, linear"] > nonlinear["GPLAR, nonlinear"]),
    measured=f"error inside the gap, nonlinear draws ({LABELS.draws}): linear kernels {nonlinear['GPLAR, linear']:.3f}, nonlinear ones "
    f"{nonlinear['GPLAR, nonlinear']:.3f}",
)
gap_errors.round(3).join(label_bounds, rsuffix=": bound")

# %% [markdown]
# The right columns are the bounds after training. The gap has no part in them, since its labels are missing: a higher bound need not mean a smaller error there.
#
# ### Ten mine fields (Figure 4.15)
#
# Each field is a binary output: mine or clutter, from nine radar features. The fields share no points. Each has a few labelled points
# to train on; the rest are scored by the area under the ROC curve (AUC). The features are standardised and the training points drawn without
# replacement.
#
# The author's notebook records $\max(\mathrm{AUC}, 1 - \mathrm{AUC})$ for each field. That rewards a classifier which is worse than
# chance. We score both ways: lines are the plain AUC, thin dotted ones the folded. The inducing inputs are k-means centres with the means
# of a GPAR (strategy B), and natural gradients train the posterior.

# %%
mines = chapter.load("landmine")
MINE_MODELS = ("IGP", "GPLAR")
DIGITISED = pd.DataFrame(
    {
        "GPLAR": [0.756, 0.811, 0.831, 0.836, 0.842, 0.856, 0.861],
        "IGP": [0.682, 0.730, 0.762, 0.778, 0.793, 0.801, 0.808],
    },
    index=pd.Index(range(20, 141, 20), name="size"),
)
mine_fits = swept_labels(
    landmine_run,
    [
        dict(
            source=mines.source, size=size, trial=trial, models=list(MINE_MODELS), rate=0.02, gamma=0.1, **LABELS.mines
        )
        for size in LABELS.sizes
        for trial in range(LABELS.trials)
    ],
    "chain-landmine",
)
by_trial = pd.concat(
    [
        pd.DataFrame(np.array([np.array(a).mean(1) for a in mine_fits[score]]), columns=MINE_MODELS).assign(
            size=mine_fits["size"], score=score
        )
        for score in ("auc", "folded")
    ]
)
mine_means = by_trial.groupby(["score", "size"]).mean()
mine_sds = by_trial.groupby(["score", "size"]).std()
MINE_COLOURS = {"IGP": COLOURS["blue"], "GPLAR": COLOURS["red"]}
fewer = f"{LABELS.mines['tasks']} of the ten fields, " if LABELS.mines["tasks"] < 10 else ""
with chapter.figure(
    "xia-fig-4-15",
    figsize=(7.6, 4.6),
    data=mines,
    partial=f"{fewer}{LABELS.trials} trials" if profile != "paper" else "",
    alt="AUC against training points of a field for independent GPs and GPLAR, plain and folded, with the published means.",
) as ax:
    for shift, name in ((-1.0, "IGP"), (1.0, "GPLAR")):
        colour, plain, folded = MINE_COLOURS[name], mine_means.loc["auc", name], mine_means.loc["folded", name]
        ax.errorbar(
            plain.index + shift,
            plain,
            mine_sds.loc["auc", name],
            color=colour,
            ls="-." if name == "IGP" else "-",
            capsize=3,
            label=f"{name}: mean ± sd",
        )
        ax.plot(
            folded.index + shift, folded, ls=":", color=colour, marker=".", label=f"{name}, folded as in the notebook"
        )
        dots = by_trial.query("score == 'auc'")
        ax.plot(dots["size"] + 2.5 * shift, dots[name], "o", color=colour, alpha=0.5, ms=3)
        ax.plot(DIGITISED.index, DIGITISED[name], "D", mfc="none", mec=colour, ms=7, label=f"{name}, published")
    ax.set(xlabel="training points of each field", ylabel="AUC, mean over the fields", xticks=list(DIGITISED.index))
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))

# %%
plain, spread = mine_means.loc["auc"], mine_sds.loc["auc"]
rank = {name: float(spearmanr(plain.index, plain[name]).statistic) for name in MINE_MODELS}
first, last = plain.index[0], plain.index[-1]
apart = {
    name: float((mine_means.loc["folded", name] - DIGITISED[name].reindex(plain.index)).abs().max())
    for name in MINE_MODELS
}
ordered = bool(
    (plain["GPLAR"] > plain["IGP"]).all()
    and all(r >= 0.9 for r in rank.values())
    and all(spread.loc[last, name] < spread.loc[first, name] for name in MINE_MODELS)
)
chapter.claim(
    "xia-4-c26",
    holds=bool(ordered and (profile != "paper" or max(apart.values()) <= 0.05)),
    measured=f"plain AUC GPLAR / IGP ({fewer}{LABELS.trials} trials): "
    + ", ".join(f"{p.GPLAR:.3f} / {p.IGP:.3f} at {p.Index}" for p in plain.itertuples())
    + "; Spearman correlation with size "
    + ", ".join(f"{name} {r:.2f}" for name, r in rank.items())
    + f"; sd at {first} and {last}: "
    + ", ".join(f"{name} {spread.loc[first, name]:.3f}, {spread.loc[last, name]:.3f}" for name in MINE_MODELS)
    + "; folded means differ from the published ones by at most "
    + ", ".join(f"{name} {a:.3f}" for name, a in apart.items()),
)
(mine_means.loc["folded"] - mine_means.loc["auc"]).round(4).add_prefix("gained by folding, ")

# %% [markdown]
# ### Homes in London: data (Figure 4.16)
#
# The thesis predicts the type of a property (flat, terraced, semi-detached) and its price from its place. Those data must be downloaded
# by hand. Here the nearest real data stand in: 19 483 homes sold in 2017 that are flats or not. Two classes take the place of three; the
# model is the same, a latent function for each class that share robust-max, then the logarithm of the price.

# %%
homes = chapter.load("london", instead_of="london-3types")
three = chapter.load("london-3types")
homes_source = "real" if homes.source == "real" or homes.instead_of else "stand-in"
KINDS = ("flat", "not a flat")
KIND_COLOURS = (COLOURS["red"], COLOURS["blue"])
table = property_table("london", homes_source, LABELS.homes["rows"] + LABELS.homes["test_rows"], seed)


def degrees(places):
    """Longitude and latitude of places in the unit square."""
    return BOX[0] + np.asarray(places)[:, :2] * (BOX[1] - BOX[0])


def as_map(*panels):
    for ax in panels:
        ax.set(
            xlabel="longitude (°)",
            ylabel="latitude (°)",
            aspect=KILOMETRES[1] / KILOMETRES[0] * np.ptp(BOX[:, 0]) / np.ptp(BOX[:, 1]),
        )


with chapter.figure(
    "xia-fig-4-16",
    ncols=2,
    figsize=(10, 4.2),
    data=homes,
    partial="two types in place of three",
    alt="Homes on the map of London, coloured by type and by price.",
) as axes:
    place = degrees(table["X"])
    for kind, name in enumerate(KINDS):
        own = table["kind"] == kind
        axes[0].scatter(*place[own].T, s=3, color=KIND_COLOURS[kind], alpha=0.5, lw=0, label=name)
    shown = axes[1].scatter(*place.T, s=3, c=np.clip(table["price"], -2, 2), cmap="viridis", lw=0)
    axes[0].figure.colorbar(shown, ax=axes[1], label="standardised log price", extend="both", shrink=0.75)
    axes[0].legend(markerscale=4, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    axes[0].set(title="type")
    axes[1].set(title="price")
    as_map(*axes)

# %% [markdown]
# ### GPAR on indicator columns (Table 4.4)
#
# The chain starts from a GPAR that reads classes as indicator columns of zeros and ones, standardised. The columns add up to one, so the last is a
# linear function of the others. Table 4.4 of the thesis shows that GPAR notices. Does it? Two ways to read earlier columns: the indicators
# themselves, or their posterior means (`replace`, the author's setting). With means the *expected* last column is still linear in the others, but
# the indicator itself is not: its noise stays.

# %%
type_fits = swept_labels(
    types_run,
    [
        dict(data=data, source=source, replace=replace, seed=seed, **LABELS.types)
        for data, source in (("london", homes_source), ("london-3types", three.source))
        for replace in LABELS.replace
    ],
    "chain-types",
)
TYPE_NAMES = {"london": KINDS, "london-3types": three.classes["type"]}
learned_types = pd.DataFrame(
    [
        {
            "data": fit.data,
            "reads": "posterior means" if fit.replace else "indicators",
            "output": name,
            "input variance": fit.input_variance[c],
            "input lengthscales": ", ".join(f"{v:.2g}" for v in fit.input_lengthscales[c]),
            "linear variances": ", ".join(f"{v:.3g}" for v in fit.linear[c][:c]) or "–",
            "nonlinear variance": fit.nonlinear[c],
            "nonlinear lengthscales": ", ".join(f"{v:.2g}" for v in fit.lengthscales[c][:c]) or "–",
            "noise variance": fit.noise[c],
        }
        for fit in type_fits.itertuples()
        for c, name in enumerate(TYPE_NAMES[fit.data])
    ]
)
PRINTED_TYPES = pd.DataFrame(
    [
        ["flat", 0.1884, "0.021, 0.026", "–", np.nan, "–"],
        ["terraced", 0.3489, "0.026, 0.03", "4.388", 0.3186, "0.921"],
        ["semi-detached", 0.0001, "1000, 1000", "0.89, 1.547", 0.0001, "10000, 9714"],
    ],
    columns=["output", "input variance", "input lengthscales", "linear variances", "nonlinear variance", "nonlinear lengthscales"],
).assign(data="thesis", reads="posterior means")  # fmt: skip
chapter.table("xia-table-4-4", pd.concat([PRINTED_TYPES, learned_types])[learned_types.columns], data=[homes, three])

# %%


def share_of_linear(fit):
    """The input and nonlinear variances of the last layer over its smallest linear one, and its noise."""
    linear = np.nanmin(fit.linear[-1])
    return max(fit.input_variance[-1], fit.nonlinear[-1]) / linear, fit.noise[-1]


last_layers = {(f.data, bool(f.replace)): share_of_linear(f) for f in type_fits.itertuples()}
as_read = [last_layers[data, False] for data in TYPE_NAMES]
chapter.claim(
    "xia-4-c27",
    holds=bool(all(ratio <= 1e-2 and noise <= 1e-3 for ratio, noise in as_read)),
    measured="last layer, largest other variance over the smallest linear one and noise variance: "
    + "; ".join(
        f"{data} reading {'posterior means' if replace else 'indicators'} {ratio:.0e}, {noise:.0e}"
        for (data, replace), (ratio, noise) in last_layers.items()
    ),
    note="Decided where a layer reads the indicators; with posterior means the noise of a label cannot vanish.",
)

# %% [markdown]
# ### Training (Figure 4.17)
#
# GPLAR ties the inducing inputs of a layer to the means of the layers before it (strategy C), and all of them move. Adam trains everything: a natural
# gradient takes inducing inputs to stay where they are.

# %%
HOME_MODELS = ("IGP", "GPLAR")
home_fits = swept_labels(
    london_run,
    [dict(source=homes_source, model=model, seed=seed, **LABELS.homes) for model in HOME_MODELS],
    "chain-london",
).set_index("model")
seen = {name: values[: LABELS.homes["rows"]] for name, values in table.items()}
gpar_winners = np.array(home_fits.loc["GPLAR", "gpar"])
stages = {"before": np.array(home_fits.loc["GPLAR", "before"]), "after": np.array(home_fits.loc["GPLAR", "after"])}
with chapter.figure(
    "xia-fig-4-17",
    nrows=2,
    ncols=2,
    figsize=(9.5, 7.4),
    sharex=True,
    sharey=True,
    data=homes,
    partial="two types in place of three",
    alt="Inducing inputs by the class with the largest inducing value, before and after training, over the homes of that type.",
) as axes:
    for row, (stage, points) in zip(axes, stages.items(), strict=True):
        for kind, ax in enumerate(row):
            ax.scatter(*degrees(seen["X"][seen["kind"] == kind]).T, s=3, color=KIND_COLOURS[kind], alpha=0.35, lw=0)
            won = points[points[:, 2] == kind]
            ax.scatter(*degrees(won).T, s=26, color=KIND_COLOURS[kind], edgecolor="black", lw=0.8)
            start = "start: GPAR's means" if stage == "before" else "after training: GPLAR"
            ax.set(title=f"{start}, {KINDS[kind]} wins")
    as_map(*axes.ravel())
    for ax in axes[0]:
        ax.set(xlabel="")
    for ax in axes[:, 1]:
        ax.set(ylabel="")

# %%


def won_by(points):
    """Median distance (km) to the centre of inducing inputs won by each kind, and agreement with the local majority."""
    away = np.linalg.norm((points[:, :2] - CENTRE) * KILOMETRES, axis=1)
    majority = local_majority(seen["X"], seen["kind"], points[:, :2])
    medians = [float(np.median(away[points[:, 2] == c])) if (points[:, 2] == c).any() else np.nan for c in range(2)]
    return *medians, float((majority == points[:, 2]).mean())


places = pd.DataFrame({stage: won_by(points) for stage, points in stages.items()}, index=[*KINDS, "agreement"]).T
chapter.claim(
    "xia-4-c28",
    holds=bool(
        places.loc["after", "flat"] < places.loc["after", "not a flat"]
        and places.loc["after", "agreement"] > places.loc["before", "agreement"]
    ),
    measured="median distance from Charing Cross of inducing inputs won by flats / others, after training: "
    f"{places.loc['after', 'flat']:.1f} / {places.loc['after', 'not a flat']:.1f} km (before: {places.loc['before', 'flat']:.1f} / "
    f"{places.loc['before', 'not a flat']:.1f}); agreement with the majority of the 25 nearest homes {places.loc['before', 'agreement']:.2f} before, "
    f"{places.loc['after', 'agreement']:.2f} after; {won_by(gpar_winners)[2]:.2f} by the shares that GPAR predicts",
    note="Before: columns standardised, as the chain starts, so a class wins where it is more frequent than on average.",
)

# %% [markdown]
# ### Scores (Table 4.5)
#
# The printed type HLLs, −2.655 and −2.444, lie below that of a uniform guess, $-\log 3 = -1.099$, although two thirds of the types are right. Robust-max gives
# a wrong class the probability $\epsilon/2 = 0.0005$, so the *expected log* likelihood is about $(1 - \text{accuracy}) \log(\epsilon/2)$: a relabelled
# accuracy. The table has that form and a proper one, the log of the class probability averaged over paths. Prices are scored as logarithms, standardised; a
# log price in its own units adds a constant to the HLL of both models.

# %%
PRINTED_SCORES = {"IGP": (0.6416, -2.655, 0.6122, -0.8820), "GPLAR": (0.6672, -2.444, 0.5949, -0.8566)}
COLUMNS = ("accuracy", "type_hll", "type_published", "smse", "price_hll")
scores = home_fits[list(COLUMNS)].astype(float)
printed_rows = {m: (v[0], np.nan, v[1], v[2], v[3]) for m, v in PRINTED_SCORES.items()}
both = pd.concat(
    [
        scores.rename(index="{}, flat or not".format),
        pd.DataFrame(printed_rows, index=COLUMNS).T.rename(index="{}, thesis (three types)".format),
    ]
).set_axis(["accuracy", "type: log predictive", "type: expected log", "price: SMSE", "price: HLL"], axis="columns")
chapter.table("xia-table-4-5", both.round(4), data=homes, partial="two types in place of three")

# %%
mine, theirs = scores.loc["GPLAR"], scores.loc["IGP"]
chapter.claim(
    "xia-4-c29",
    holds=bool(
        mine["accuracy"] >= theirs["accuracy"] - 0.005
        and mine["smse"] <= theirs["smse"] + 0.01
        and mine["price_hll"] >= theirs["price_hll"] - 0.02
    ),
    measured=f"GPLAR / IGP: accuracy {mine['accuracy']:.3f} / {theirs['accuracy']:.3f}, log predictive of the type {mine['type_hll']:.3f} / "
    f"{theirs['type_hll']:.3f}, SMSE {mine['smse']:.3f} / {theirs['smse']:.3f}, price HLL {mine['price_hll']:.3f} / {theirs['price_hll']:.3f}; bound in the "
    "last two tenths of training: "
    + ", ".join(f"{m} {b[-2]:.0f}, {b[-1]:.0f}" for m, b in home_fits["bounds"].items()),
    note="Decided by the ledger's rule: not worse by more than a tolerance. The standard error of an accuracy on these test homes is "
    f"{np.sqrt(theirs['accuracy'] * (1 - theirs['accuracy']) / LABELS.homes['test_rows']):.3f}.",
)
relabelled = {m: (1 - v[0]) * np.log(1e-3 / 2) for m, v in PRINTED_SCORES.items()}
below = all(v[1] < -np.log(3) for v in PRINTED_SCORES.values())
near = max(abs(v[1] - relabelled[m]) for m, v in PRINTED_SCORES.items()) <= 0.1
chapter.claim(
    "xia-4-c30",
    holds=not (below and near),
    measured="printed type HLL / (1 − accuracy) log(ε/2): "
    + ", ".join(f"{m} {v[1]:.3f} / {relabelled[m]:.3f}" for m, v in PRINTED_SCORES.items())
    + f"; a uniform guess has {-np.log(3):.3f}",
    note="They restate the accuracy through robust-max's constant. Table 4.5 has a proper log predictive beside them.",
    data=(),
)

# %% [markdown]
# ### Maps of predictions (Figure 4.18)
#
# Left: the class that wins most paths, darker where more paths agree. Right: the mean log price.

# %%

share = np.array(home_fits.loc["GPLAR", "share"])
price_map = np.array(home_fits.loc["GPLAR", "price"])
grid = np.array(home_fits.loc["GPLAR", "grid"])
side = LABELS.homes["side"]
certainty = share.max(1)
strength = ((certainty - 0.5) / 0.5)[:, None]
colours = np.array([to_rgb(c) for c in KIND_COLOURS])[share.argmax(1)]
picture = 1 - strength * (1 - colours)
edges = degrees(grid)
extent = (edges[:, 0].min(), edges[:, 0].max(), edges[:, 1].min(), edges[:, 1].max())
with chapter.figure(
    "xia-fig-4-18",
    ncols=2,
    figsize=(10, 4.2),
    data=homes,
    partial="two types in place of three",
    alt="Maps of London: predicted type with certainty as darkness, and predicted log price.",
) as axes:
    axes[0].imshow(picture.reshape(side, side, 3).transpose(1, 0, 2), origin="lower", extent=extent)
    for kind, name in enumerate(KINDS):
        axes[0].scatter([], [], marker="s", s=60, color=KIND_COLOURS[kind], label=name)
    axes[0].legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    shown = axes[1].imshow(price_map.reshape(side, side).T, origin="lower", extent=extent, cmap="viridis")
    axes[0].figure.colorbar(shown, ax=axes[1], label="mean of standardised log price", shrink=0.85)
    for ax in axes:
        ax.grid(False)
    axes[0].set(title="type (white: half of the paths agree)")
    axes[1].set(title="price")
    as_map(*axes)

# %%
away = np.linalg.norm((grid - CENTRE) * KILOMETRES, axis=1)
close = KDTree(seen["X"] * KILOMETRES).query(grid * KILOMETRES)[0] <= 1.0
inner, outer = (away <= np.quantile(away, 1 / 3)), (away >= np.quantile(away, 2 / 3))
chapter.claim(
    "xia-4-c31",
    holds=bool(certainty[inner].mean() < certainty[outer].mean()),
    measured=f"mean share of agreeing paths {certainty[inner].mean():.3f} in the third of the map nearest to the centre, "
    f"{certainty[outer].mean():.3f} in the outer third; within 1 km of a home that was trained on, {certainty[inner & close].mean():.3f} and "
    f"{certainty[outer & close].mean():.3f}",
    note="Robust-max has no slope and the class functions no noise of their own: with many homes the paths agree even where types are mixed. Far from all homes "
    "the functions return to the prior, and paths disagree.",
)

# %% [markdown]
# ### Is the bound a bound? (robust-max on chained classes)
#
# The second class function of a chain has read the first, so the two are dependent. The published way takes the conditional moments of both along a path
# and integrates them again, as if they were independent. Each marginal is right; the dependence is gone. A toy: $h_2 = h_1 + \delta$ with
# $h_1 \sim \mathcal N(0, 1)$ and $\delta \sim \mathcal N(0.3, 0.3^2)$, so that class 2 wins with probability $\Phi(1)$ whatever $h_1$ is.

# %%


def chained_classes(likelihood, slope):
    """Two class functions, the second of which is a multiple of the first and a margin: a GP, a line, a constant."""
    line, constant = gpflow.kernels.Linear(), gpflow.kernels.Constant()
    chain = LatentChain(
        [Component(gpflow.kernels.SquaredExponential()), Component(line, ((0,),), inputs=False), Component(constant)],
        [{0: 1.0}, {1: 1.0, 2: 1.0}],
        likelihood,
        [[[0.0]], [[1.0]], [[0.0]]],
        input_dim=1,
        inner=0.0,
        whiten=False,
    )
    chain.posterior.q_mu.assign([[0.0, slope, 0.3]])
    chain.posterior.q_sqrt.assign([[[1.0]], [[1e-6]], [[0.3]]])
    return chain


def by_paths(likelihood, paths, seed, slope=1.0):
    """Mean and standard error of the expected log-likelihood of class 2: re-integrated as published, and at the drawn values."""
    X, Y = tf.zeros([1, 1], tf.float64), tf.ones([paths, 1], tf.float64)
    noise = tf.constant(np.random.default_rng(seed).standard_normal((3, paths, 1)))
    along = chained_classes(likelihood, slope).run(X, noise).of(range(2))
    nothing = tf.zeros([paths, 0], tf.float64)
    found = {"drawn values": likelihood.log_prob(nothing, along.draws, Y)}
    if isinstance(likelihood, RobustMax):
        found["re-integrated"] = likelihood.variational_expectations(nothing, along.mean, along.var, Y)
    return {way: (float(np.mean(v)), float(np.std(v) / np.sqrt(paths))) for way, v in found.items()}


robust, soft = (by_paths(likelihood, LABELS.toy, seed) for likelihood in (RobustMax(2), Softmax(2)))
nodes, weights = np.polynomial.hermite_e.hermegauss(60)
soft_exact = float(weights @ log_expit(0.3 + 0.3 * nodes) / weights.sum())
opposed = by_paths(RobustMax(2), LABELS.toy, seed, slope=-1.0)
(published, published_se), (joint, joint_se) = robust["re-integrated"], robust["drawn values"]
standard_errors = abs(published - joint) / np.hypot(published_se, joint_se)
chapter.claim(
    "xia-4-c32",
    holds=bool(standard_errors <= 3),
    measured=f"expected log-likelihood of robust-max: re-integrated {published:.3f}, at drawn values {joint:.3f}, {standard_errors:.0f} standard errors apart; "
    f"with h₂ = −h₁ + δ {opposed['re-integrated'][0]:.3f} and {opposed['drawn values'][0]:.3f}; "
    f"softmax at drawn values {soft['drawn values'][0]:.4f} ± {soft['drawn values'][1]:.4f}, by quadrature {soft_exact:.4f}",
    note="The estimate loses the dependence between classes, so it need not be a lower bound. Softmax at drawn values is unbiased.",
    data=(),
)

# %% [markdown]
# With $h_2 = h_1 + \delta$ the published estimate is too low. With classes that move against each other, $h_2 = -h_1 + \delta$, it is too high, and nothing keeps
# it below the evidence. `Softmax` in a chain is evaluated at drawn values and has no such fault.

# %% [markdown]
# ## What we found that the document does not say
#
# - **GPAR's over-confidence comes from what it passes on.** Printed log-likelihoods of GPAR leave out the observation noise, GPLAR's do not; the table below Table 4.2
#   has both. With posterior means passed on, later layers never hear that an earlier one is unsure; the same layers, given draws, say so in their bands.
# - **GPAR's errors on exchange rates are one of many.** Its evidence has several maxima; the package that the author used does not give the printed errors
#   either.
# - **A better bound is not always a better prediction.** Natural gradients reach a higher bound than Adam, in as many steps or fewer (`GPLAR, natural`). On the
#   electrodes the error in the gaps is a little larger with them, on the exchange rates smaller. Where training stops is part of a published result.
# - **The means of Figure 4.13 hang on single gaps.** An error relative to the variance of 25 or 50 held-out values is huge where these hardly vary. Medians and wins tell
#   another story than means.
# - **Frozen inducing inputs** (the author's slip) make little difference here: at $M = N$ inducing inputs already lie where the data are.
#
# ## Exercises

# %% [markdown] tags=["exercise"]
# **Exercise 1.** Order matters. Put FZ, F1 and F2 *first* in the chain of Table 4.2, and train GPAR again. Why can it not use F3 to F6 inside the gaps now? Why does
# GPLAR not save the day either?

# %% tags=["solution"]
by_order = {}
for way, order in (("as given", eeg.outputs), ("reversed", tuple(reversed(eeg.outputs)))):
    point = EEG | settings.gaps | dict(options=dict(electrodes=order), samples=settings.paths, seed=seed)
    found = chain_run(**point | dict(models=["GPAR", "GPLAR"]))
    held = [order[d] for d in found["outputs"]]
    for k, model in enumerate(("GPAR", "GPLAR")):
        by_order[f"{model}, {way}"] = pd.Series(np.array(found["scores"])[k, :, SCORES.index("smse")], index=held)
pd.DataFrame(by_order).T.rename_axis("SMSE").round(3)

# %% [markdown] tags=["solution"]
# In the reversed order the gaps are closed upwards: inside them GPAR has only the time to go by, and 100 samples are many lengthscales. GPLAR sees the later
# electrodes, but starts from GPAR's means, and later layers can explain their own data by time alone: nothing forces the missing latents to move.

# %% [markdown] tags=["exercise"]
# **Exercise 2.** A model predicts the true mean exactly, and says so: its variance of the *function* is $10^{-4}$, the noise has variance 0.04. What are the expected
# log-likelihoods of a held-out target with and without the noise in the density? Which of the two would you publish?

# %% tags=["solution"]
noise, function = 0.04, 1e-4
expected = {
    "with noise": -0.5 * (np.log(2 * np.pi * (noise + function)) + noise / (noise + function)),
    "without": -0.5 * (np.log(2 * np.pi * function) + noise / function),
}
pd.Series(expected, name="expected log-likelihood of a target").round(2)

# %% [markdown] tags=["solution"]
# A perfect prediction scores −196 without the noise: the density is asked for a target, which has noise, and answers for the function, which has none. The density
# with the noise is the one to publish. (How much of GPAR's low score of F1 this is, and how much is not, is in the table below Table 4.2.)

# %% [markdown] tags=["exercise"]
# **Exercise 3.** A classifier that flips coins has an AUC of one half on average. What is its folded AUC, $\max(\mathrm{AUC}, 1 - \mathrm{AUC})$, on a field with 440 clutter
# points and $n$ mines, for $n = 5, 15, 30, 60$? Derive an approximation from the variance of the Mann–Whitney statistic.

# %% tags=["solution"]
rng = np.random.default_rng(seed)


def coin_flips(mines, clutter=440, trials=400):
    """Mean folded AUC of random scores, from ranks."""
    ranks = rng.random((trials, mines + clutter)).argsort(1).argsort(1) + 1
    area = (ranks[:, :mines].sum(1) - mines * (mines + 1) / 2) / (mines * clutter)
    return np.maximum(area, 1 - area).mean()


def approximation(mines, clutter=440):
    return 0.5 + np.sqrt(2 / np.pi) * np.sqrt((mines + clutter + 1) / (12 * mines * clutter))


pd.DataFrame(
    {n: {"simulated": coin_flips(n), "approximation": approximation(n)} for n in (5, 15, 30, 60)}
).T.rename_axis("mines").round(3)

# %% [markdown] tags=["solution"]
# For random scores the AUC has mean $1/2$ and variance $(m + n + 1)/(12 m n)$; the mean of $|z|$ for a standard normal is $\sqrt{2/\pi}$. Few mines make the
# folded AUC of a coin look like knowledge. Folding gains nothing where every field is well above one half.

# %%
chapter.finish()
