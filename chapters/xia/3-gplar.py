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
# # Xia 3: The GPLAR model
#
# Chapter 3 of {cite}`xia2020thesis` makes a model out of the idea of chapter 2. Three questions are in it: where to put the
# inducing inputs of a layer whose inputs are themselves latent (§3.1), how information can flow back from later outputs to
# earlier ones (§3.2: a second chain in the other direction), and whether the chain can be taken apart into GPs of one
# argument each (§3.3).
#
# | | |
# |---|---|
# | **Shows** | Figures 3.1 to 3.3, Tables 3.1 and 3.2; claims xia-3-c1 to xia-3-c7 |
# | **Adds** | why a chain is too sure of a missing output, in one line of algebra; what training the posterior by natural gradients changes; how long small start values hold a chain back; what became of the light chain back |
# | **Data** | [`eeg`](../guide/data/eeg), subject 337, seven electrodes; [`exchange`](../guide/data/exchange), rates of 2007; [`xia-functions`](../guide/data/xia-functions), generated |
# | **Time** | `smoke` half a minute, `quick` about three and a half minutes on one core; `long` about eight minutes on two; `paper` has the thesis's sizes and takes hours |

# %% tags=["parameters"]
profile = "quick"
seed = 0

# %%
from mogp.book import Chapter
from mogp.book.plots import graph

chapter = Chapter("xia/3", profile=profile, seed=seed)
settings = chapter.settings(
    smoke=dict(
        functions=dict(n=20, steps=1, gpar_steps=1), eeg=dict(thin=16, steps=1, gpar_steps=1), looks=1,
        currencies=("CAD", "JPY", "AUD"), exchange=dict(thin=16, steps=1, gpar_steps=1), paths=10, workers=0, eager=True,
    ),
    quick=dict(
        functions=dict(n=50, steps=1200, gpar_steps=200), eeg=dict(thin=4, steps=1500, gpar_steps=100), looks=4,
        currencies=("EUR", "CAD", "JPY", "AUD"), exchange=dict(thin=4, steps=600, gpar_steps=100), paths=100, workers=0, eager=False,
    ),
    long=dict(
        functions=dict(n=50, steps=4000, gpar_steps=500), eeg=dict(thin=2, steps=1600, gpar_steps=300), looks=4,
        currencies=("EUR", "CAD", "JPY", "AUD"), exchange=dict(thin=2, steps=1200, gpar_steps=300), paths=200,
        workers=2, eager=False,
    ),
    paper=dict(
        functions=dict(n=50, steps=10_000, gpar_steps=1000), eeg=dict(thin=1, steps=8000, gpar_steps=1000), looks=4,
        currencies=None, exchange=dict(thin=1, steps=8000, gpar_steps=1000), paths=200, workers=None, eager=False,
    ),
)  # fmt: skip

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from gpflow import set_trainable
from scipy.optimize import minimize

from mogp import MultiOutputData
from mogp.book.runs.chains import load_rows, quietly, train_chain
from mogp.book.runs.mixtures import Mixture
from mogp.experiments import sweep
from mogp.kernels import LayerKernels
from mogp.metrics import smse
from mogp.models import GPAR, additive_gplar, bi_gplar, gplar, igp
from mogp.models.chains.additive import additive_paths
from mogp.plotting import COLOURS, bands
from mogp.training import fit, greedy_order

tf.config.run_functions_eagerly(settings.eager)  # for a few steps a compiled graph does not pay
GPAR_COLOUR, GPLAR_COLOUR = COLOURS["green"], COLOURS["red"]


def swept(function, points, name):
    return sweep(function, points, name=name, workers=settings.workers, progress=False)


# %% [markdown]
# The settings are the whole difference between the profiles: `n` points of a function, every `thin`-th row of the data, `steps`
# of training for a chain after `gpar_steps` of L-BFGS for each layer of its GPAR, `looks` at it on the way, `paths` of a prediction.
#
# The thesis trains all parameters by Adam, from fixed start values. We train the posteriors by natural gradients (step size
# 0.1) and the kernels and noises by Adam, with inducing inputs that stay where they are, and mostly start the kernels where GPAR's
# have ended (`adopt`). The first experiment below shows what this changes.

# %%
GAMMA, RATE = 0.1, 0.01


def trained(model, data, steps, gamma=GAMMA):
    """Train a chain whose inducing inputs stay where they are; its bound, of standardised targets."""
    for inducing in model.inducing:
        set_trainable(inducing, False)
    return train_chain(model, data, steps, RATE, gamma)


# %% [markdown]
# ## The model, and where its inducing inputs go (§3.1)
#
# Chapter 2 built the bound by hand. In the library a chain is one call: kernels of the layers (Table 2.1), and a strategy for the
# inducing inputs. A layer reads $\hat{\mathbf x}_l = (\mathbf x, h_1, \dots, h_{l-1})$, so its inducing inputs have a column for each
# earlier function, and these should look like values that the functions take together:
#
# | strategy | inducing inputs of layer $l$ | trained |
# |---|---|---|
# | A | rows $[\mathbf x_n, y_{1n}, \dots, y_{l-1,n}]$ at which all outputs up to $l$ are observed, as in MF-DGP | no |
# | B | $[\mathbf Z, \bar{\mathbf y}_1, \dots, \bar{\mathbf y}_{l-1}]$: means of a GPAR at a grid | no |
# | C | $[\mathbf Z, \mathbf m_1, \dots, \mathbf m_{l-1}]$: the posterior means of the layers before, as they are now | yes |

# %%
functions = chapter.load("xia-functions", n=settings.functions["n"], missing=True)
recipe = dict(kind="linear+nonlinear", input_lengthscale=0.1, output_lengthscale=0.1)
example = gplar(
    functions.train.data,
    kernel=LayerKernels(1, **recipe),
    strategy="C",
    inducing=10,
    start="zero",
    scaling=None,
)
pd.DataFrame(
    {
        "kernel": [" + ".join(type(k).__name__ for k in getattr(one, "kernels", [one])) for one in example.kernels],
        "inducing inputs": [" × ".join(map(str, layer.Z.shape)) for layer in example.layers()],
    },
    index=[f"layer of {name}" for name in example.names],
)

# %% [markdown]
# The first experiment has $y_1$ missing on $[0.2, 0.4]$ and $y_2$ on $[0.6, 0.8]$, while $y_3$ is complete. Strategy A cannot place a
# point where an earlier output is missing; strategy B can. (The thesis draws this as Figure 4.3; the claims about it are made here.)
# Strategy B has three more rows in the table: kernels that start at the stated values, Adam for everything, and both, which is
# the way of the thesis. All have as many steps.

# %%
MODELS = ("GPAR", "A", "B", "B, stated start", "B, Adam", "B, stated start, Adam")
GRID = np.linspace(0, 1, 200)


def strategy_run(model, source, n, steps, gpar_steps, paths, seed):
    """One of MODELS on the three functions with gaps: its curves on a grid, and where its inducing inputs are."""
    toy = load_rows("xia-functions", source, {"n": n, "missing": True})
    data, kernels = toy.train.data, LayerKernels(1, **recipe)
    fitted = GPAR(data, kernels, noise=0.05, starts=1, scaling=None)
    fit(fitted, data, steps=gpar_steps, progress=False)
    found = {"bound": fitted.elbo(), "inducing": [[]] * 3}
    if model != "GPAR":
        adopt = "stated" not in model
        fitted = gplar(
            data,
            kernel=kernels,
            strategy=model[0],
            start=fitted,
            adopt=adopt,
            inducing=toy.X,
            noise=0.05,
            whiten=False,
            seed=seed, scaling=None
        )  # fmt: skip
        found["bound"] = trained(fitted, data, steps, 0.0 if "Adam" in model else GAMMA)
        found["inducing"] = [np.asarray(layer.Z[:, 0]).tolist() for layer in fitted.layers()]
    mixture = Mixture.of(fitted, GRID[:, None], paths, seed)
    band = mixture._replace(noise=np.zeros(3)).band()
    return found | {"mean": mixture.mean.mean(0), "band": np.array(band), "sd": mixture.sd()}


by_model = swept(
    strategy_run,
    [dict(model=m, source=functions.source, **settings.functions, paths=settings.paths, seed=seed) for m in MODELS],
    "gplar-strategies",
).set_index("model")
means, function_bands, sds = ({m: np.array(by_model.loc[m, name]) for m in MODELS} for name in ("mean", "band", "sd"))
truth = np.column_stack([np.interp(GRID, functions.extras["x"][:, 0], h) for h in functions.extras["truth"].T])
gaps = {"y1": (GRID >= 0.2) & (GRID <= 0.4), "y2": (GRID >= 0.6) & (GRID <= 0.8)}

# %%
fig, axes = plt.subplots(3, 2, figsize=(9, 7.2), sharex=True, sharey="row")
for d, name in enumerate(functions.outputs):
    low, high = np.nanmin(functions.Y[:, d]), np.nanmax(functions.Y[:, d])
    for ax, model in zip(axes[d], ("A", "B"), strict=True):
        if name in gaps:
            ax.axvspan(*GRID[gaps[name]][[0, -1]], color=COLOURS["grey"], alpha=0.15, lw=0)
        for one, label, colour in (("GPAR", "GPAR", GPAR_COLOUR), (model, "GPLAR", GPLAR_COLOUR)):
            lower, upper = function_bands[one][..., d]
            bands(
                ax,
                GRID,
                means[one][:, d],
                lower=lower,
                upper=upper,
                color=colour,
                alpha=0.25,
                label=f"{label}, 95 % band",
            )
        ax.plot(GRID, truth[:, d], color="black", lw=1, ls="--", label="truth")
        ax.plot(functions.X, functions.train.Y[:, d], "o", color="black", ms=3, label="observed")
        places = by_model.loc[model, "inducing"][d]
        bottom = low - 0.45 * (high - low)
        ax.plot(places, np.full(len(places), bottom), "|", color=COLOURS["blue"], ms=7, label="inducing inputs")
    axes[d, 0].set(ylabel=name, ylim=(low - 0.55 * (high - low), high + 0.4 * (high - low)))
axes[0, 0].set(title="strategy A: inducing inputs are observations")
axes[0, 1].set(title="strategy B: means of GPAR on a grid")
for ax in axes[-1]:
    ax.set(xlabel="x")
fig.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=5)
plt.show()

# %% [markdown]
# Grey: where the output is missing. Bands are those of the functions, without observation noise.


# %%
def sd_ratio(model, output):
    """Mean predictive sd inside the gap of y1 over that where all outputs are observed."""
    outside = ~gaps["y1"] & ~gaps["y2"]
    return sds[model][gaps["y1"], output].mean() / sds[model][outside, output].mean()


def width_ratio(model, output):
    """The same for the bands of the function, without observation noise."""
    width, outside = np.ptp(function_bands[model][..., output], axis=0), ~gaps["y1"] & ~gaps["y2"]
    return width[gaps["y1"]].mean() / width[outside].mean()


ratios = pd.DataFrame({m: [sd_ratio(m, 1), sd_ratio(m, 2)] for m in ("A", "B")}, index=["y2", "y3"])
chapter.claim(
    "xia-3-c3",
    holds=bool((ratios["A"] >= 1.5).all() and (ratios["B"] < 1.3).all()),
    measured="sd inside the gap of y1 over outside, strategy A: "
    + ", ".join(f"{n} {r:.2f}" for n, r in ratios["A"].items())
    + "; strategy B: "
    + ", ".join(f"{n} {r:.2f}" for n, r in ratios["B"].items())
    + "; of the function alone, strategy A: "
    + ", ".join(f"{n} {width_ratio('A', d):.2f}" for d, n in ((1, "y2"), (2, "y3"))),
    data=functions,
)

# %%
errors = pd.DataFrame({m: ((means[m] - truth) ** 2).mean(0) * 1000 for m in MODELS}, index=functions.outputs)


def covers(model):
    """The share of the truth inside the gaps that lies in a model's 95 % bands."""
    lower, upper = function_bands[model]
    inside = (lower <= truth) & (truth <= upper)
    return np.concatenate([inside[gap, d] for d, gap in enumerate(gaps.values())]).mean()


chapter.claim(
    "xia-3-c4",
    holds=bool((errors["B"] < errors["GPAR"])[["y1", "y2"]].all() and covers("B") < 0.95),
    measured="squared error of the mean on 1000 points, GPLAR "
    + " / ".join(f"{e:.3g}" for e in errors["B"])
    + ", GPAR "
    + " / ".join(f"{e:.3g}" for e in errors["GPAR"])
    + f" for y1 / y2 / y3; 95 % bands cover {covers('B'):.0%} of the truth inside the gaps",
    data=functions,
)
summary = errors.T.rename(columns="squared error of {}".format)
summary["truth covered in gaps"] = [covers(m) for m in MODELS]
summary["bound (nats)"] = [by_model.loc[m, "bound"] for m in MODELS]
summary.round(2)

# %% [markdown]
# Strategy A does widen the bands of $y_2$ and $y_3$ where $y_1$ is missing. At `quick` the factor is about two for the function alone, but
# observation noise fills most of the predictive standard deviation that the rule asks about, and there it stays below 1.5. That the bands of strategy B are too
# narrow rests on little: they miss 95 % by a point or so, on 80 neighbouring grid points.
#
# The four rows of B tell the start from the optimiser. In as many steps, Adam leaves the mean of $y_1$ in its gap about as wrong as GPAR's, and a bound
# more than a hundred nats below, from either start; natural gradients correct it from either start. The thesis trains for longer (`paper`). (The bound of a chain is an
# estimate from one path a row. That of GPAR is the evidence of another model, which reads the data as inputs: the two do not compare.)
#
# ### Start values that let the chain be a chain
#
# The thesis starts the kernels over earlier outputs *above* the kernel over the input (linear variance 10, nonlinear 1), "since
# otherwise the optimiser never leaves independent GPs". Here $y_3$ is missing on $[0.4, 0.6]$, and the chain is trained from the stated
# start values, from output variances of $10^{-4}$, and without output kernels at all. We look four times on the way.

# %%
STARTS = ("stated", "small", "independent")


def start_run(start, source, n, steps, gpar_steps, looks, seed):
    """Bound, and error of y3 in a gap, on the way: GPLAR from stated and from small start values, independent GPs."""
    toy = load_rows("xia-functions", source, {"n": n})
    gap = (toy.X[:, 0] >= 0.4) & (toy.X[:, 0] <= 0.6)
    Y = toy.Y.copy()
    Y[gap, 2] = np.nan
    data = MultiOutputData.from_arrays(toy.X, Y, names=toy.outputs)
    kernels = LayerKernels(1, **recipe)
    common = dict(inducing=toy.X, noise=0.05, whiten=False, seed=seed)
    if start == "independent":
        model = igp(data, kernel=kernels, **common, scaling=None)
    else:
        first = GPAR(data, kernels, noise=0.05, starts=1, scaling=None)
        fit(first, data, steps=gpar_steps, progress=False)
        model = gplar(
            data,
            kernel=kernels,
            strategy="B",
            start=first,
            adopt=False,
            **common,
            scaling=None,
        )
    if start == "small":
        for kernel in model.kernels[1:]:
            for over_outputs in kernel.kernels[1:]:
                over_outputs.variance.assign(1e-4 * np.ones(over_outputs.variance.shape))
    model.regress(data)
    noise = tf.constant(np.random.default_rng(seed).standard_normal((model.num_gps, 50, n)))
    h, bounds, errors = toy.extras["h"][gap, 2], [], []
    for _ in range(looks):
        trained(model, data, max(steps // looks, 1))
        bounds.append(float(model.elbo(data, noise)))
        errors.append(float(smse(h, np.asarray(model.predict_f(toy.X[gap], "y3").mean)[:, 0])))
    return {"bound": bounds, "smse": errors}


starts = swept(
    start_run,
    [dict(start=s, source=functions.source, **settings.functions, looks=settings.looks, seed=seed) for s in STARTS],
    "gplar-starts",
).set_index("start")
looked = [max(settings.functions["steps"] // settings.looks, 1) * (i + 1) for i in range(settings.looks)]
pd.concat(
    {
        "bound (nats)": pd.DataFrame({s: starts.bound[s] for s in STARTS}, index=looked).round(0),
        "SMSE of y3 in its gap": pd.DataFrame({s: starts.smse[s] for s in STARTS}, index=looked).round(2),
    },
    axis=1,
).rename_axis("steps")

# %%
bound, last = ({s: starts[name][s][-1] for s in STARTS} for name in ("bound", "smse"))
chapter.claim(
    "xia-3-c7",
    holds=bool(
        bound["small"] < bound["stated"]
        and abs(last["small"] - last["independent"]) < abs(last["stated"] - last["independent"])
    ),
    measured=f"after {looked[-1]} steps bound {bound['small']:.0f} from small variances, {bound['stated']:.0f} from the stated ones; SMSE of "
    f"y3 {last['small']:.2f} and {last['stated']:.2f}, independent GPs {last['independent']:.2f}",
    data=functions,
)

# %% [markdown]
# From small variances the chain stays at the bound of independent GPs for three quarters of the way at `quick`. "Never" is too strong, though: at
# the last look it has begun to leave, and its error is on the way to that of the stated start.

# %% [markdown]
# ## A chain in each direction (§3.2)
#
# What $y_3$ knows about a missing $y_1$ has to travel back through $f_3$ and $f_2$. The bi-directional model adds a second chain in the
# reverse order, and each output reads the sum:
#
# $$
# h_l \mid \cdot \sim \mathcal N\big(f_l(\mathbf x, h_{1:l-1}), \sigma_l^2\big), \quad
# h'_l \mid \cdot \sim \mathcal N\big(g_l(\mathbf x, h'_{l+1:L}), \sigma_l'^2\big), \quad
# y_l \sim \mathcal N(h_l + h'_l, \sigma_{y_l}^2) .
# $$
#
# (The thesis prints one $\sigma_l$ for both directions.) The author's code averages instead, $\tfrac12(h_l + h'_l)$: the same family up to the
# scale of the kernels, but two GPAR starts then add up to $y$, not to $2y$.

# %% tags=["hide-input"]
across = {1: 0.0, 2: 2.0, 3: 4.0}
places = {f"h{l}": (across[l], 1.3) for l in across} | {f"b{l}": (across[l], -1.3) for l in across}
places |= {f"y{l}": (across[l], 0.0) for l in across} | {"x": (2.0, 3.4), "x again": (2.0, -3.4)}
forward = [("x", f"h{l}") for l in across] + [("h1", "h2"), ("h1", "h3"), ("h2", "h3")]
backward = [("x again", f"b{l}") for l in across] + [("b3", "b2"), ("b3", "b1"), ("b2", "b1")]
labels = {f"{c}{l}": f"${letter}_{l}$" for c, letter in (("h", "h"), ("b", "h'"), ("y", "y")) for l in across}
labels |= dict.fromkeys(("x", "x again"), "$\\mathbf{x}$")
labels |= {("x", f"h{l}"): f"$f_{l}$" for l in across} | {("x again", f"b{l}"): f"$g_{l}$" for l in across}
with chapter.figure(
    "xia-fig-3-1",
    figsize=(6.4, 6.0),
    alt="Three outputs, each read off a latent of a forward chain and one of a backward chain; both chains read x.",
) as ax:
    graph(
        ax,
        places,
        forward + backward + [(f"{c}{l}", f"y{l}") for l in across for c in "hb"],
        labels=labels,
        observed={"y1", "y2", "y3", "x", "x again"},
        bend={("h1", "h3"): -0.35, ("b3", "b1"): -0.35},
        colors={edge: COLOURS["blue"] for edge in forward} | {edge: COLOURS["red"] for edge in backward},
        radius=0.36,
        fontsize=15,
    )

# %% [markdown]
# The input is drawn twice. Blue: the forward chain, $h_1 \to h_2 \to h_3$. Orange: the backward chain, whose last latent is $h'_1$: nothing
# reads it, so nothing but $y_1$ itself can shrink its variance.
#
# ### Seven electrodes (Figure 3.2, Table 3.1)
#
# The order is FZ, F1, F2, F3, F4, F5, F6. The first three are missing for $t \in [0.6, 0.8]$, where all later ones are observed
# (*closed upwards*), F3 and F4 for $t \in [0.8, 1.0]$ (*neither*). The model is GPLAR with a light chain back: the latents
# $h'_7(\mathbf x)$, $h'_l(h'_{l+1})$ of a deep GP, started at zero. GPAR reads the same data, with means in place of missing values.
#
# Departures from the thesis: training as above, which keeps the inducing inputs of the chain back where they start, and, at the
# smaller profiles, every second or fourth sample only.


# %%
def diagnosis_run(source, thin, steps, gpar_steps, looks, paths, seed):
    """GPAR, and GPLAR with a light chain back, on the electrodes: means, bands and sds, variances of the kernels."""
    eeg = load_rows("eeg", source, {"missing": "diagnosis"}, thin)
    data = eeg.train.data
    kernels = LayerKernels(1, "linear+nonlinear", input_lengthscale=0.02)
    first = GPAR(data, kernels, starts=1, scaling=None)
    fit(first, data, steps=gpar_steps, progress=False)
    chain = bi_gplar(
        data,
        kernel=kernels,
        combine="sum",
        light=True,
        start=(first, "zero"),
        adopt=True,
        inducing=eeg.X,
        whiten=False,
        seed=seed, scaling=None
    )  # fmt: skip
    bounds, covered = [], []
    for _ in range(looks):
        bounds.append(trained(chain, data, max(steps // looks, 1)))
        mixture = Mixture.of(chain, eeg.X, paths, seed)
        lower, upper = mixture.band()
        inside = (lower <= eeg.Y) & (upper >= eeg.Y)
        covered.append([float(inside[eeg.held_out[:, d], d].mean()) for d in range(5)])
    found = {"bounds": bounds, "covered": covered}
    for name, one in (("gpar", Mixture.of(first, eeg.X, paths, seed)), ("gplar", mixture)):
        found |= {
            f"{name}_mean": one.mean.mean(0),
            f"{name}_band": np.array(one.band()),
            f"{name}_sd": one.sd(),
        }
    means = np.column_stack([np.asarray(layer.mean[0]) for layer in chain.layers()[: data.num_outputs]])
    found["forward_means"] = chain.location + chain.scale * means
    found["variances"] = [
        [np.asarray(k.variance).reshape(-1).tolist() for k in getattr(kernel, "kernels", [kernel])]
        for kernel in chain.kernels
    ]
    return found


eeg = chapter.load("eeg", missing="diagnosis")
found = swept(
    diagnosis_run,
    [dict(source=eeg.source, **settings.eeg, looks=settings.looks, paths=settings.paths, seed=seed)],
    "gplar-diagnosis",
).iloc[0]
rows = np.arange(0, len(eeg), settings.eeg["thin"])
time, removed = eeg.X[rows, 0], eeg.held_out[rows]
model_means, model_bands, model_sds = (
    {model: np.array(found[f"{key}_{part}"]) for model, key in (("GPAR", "gpar"), ("GPLAR + chain back", "gplar"))}
    for part in ("mean", "band", "sd")
)
forward_means = np.array(found["forward_means"])

with chapter.figure(
    "xia-fig-3-2",
    nrows=4,
    ncols=2,
    figsize=(10, 11),
    sharex=True,
    data=eeg,
    alt="Seven electrodes with gaps: GPAR's and GPLAR's predictions with bands, and the forward chain's inducing means.",
) as axes:
    for d, (ax, name) in enumerate(zip(axes.ravel(), eeg.outputs, strict=False)):
        gap, y = removed[:, d], eeg.Y[rows, d]
        for model, colour in (("GPAR", GPAR_COLOUR), ("GPLAR + chain back", GPLAR_COLOUR)):
            lower, upper = model_bands[model][..., d]
            bands(
                ax,
                time,
                model_means[model][:, d],
                lower=lower,
                upper=upper,
                color=colour,
                alpha=0.25,
                label=f"{model}, 95 % band",
            )
        ax.plot(
            time,
            forward_means[:, d],
            color=COLOURS["blue"],
            lw=1,
            ls="--",
            label="inducing means $\\mathbf{m}_l$ of the forward chain",
        )
        ax.plot(time[~gap], y[~gap], "o", color="black", ms=2.5, label="observed")
        ax.plot(time[gap], y[gap], "D", mfc="white", mec="black", ms=4, label="removed")
        span = np.ptp(eeg.Y[:, d])
        ax.set(title=name, ylabel="µV", ylim=(eeg.Y[:, d].min() - 0.35 * span, eeg.Y[:, d].max() + 0.35 * span))
    axes[-1, 1].axis("off")
    axes[-1, 1].legend(*axes[0, 0].get_legend_handles_labels(), loc="center")
    for ax in (axes[-1, 0], axes[-2, 1]):
        ax.set(xlabel="time (s)")
        ax.tick_params(labelbottom=True)

# %%
forward, back = found["variances"][: len(eeg.outputs)], found["variances"][len(eeg.outputs) :]
learned = pd.DataFrame(
    [
        {
            "output": name,
            "time kernel": own[0][0],
            **({f"linear: {before}": v for before, v in zip(eeg.outputs, own[2], strict=False)} if d else {}),
            "nonlinear": own[1][0] if d else np.nan,
        }
        for d, (name, own) in enumerate(zip(eeg.outputs, forward, strict=True))
    ]
).set_index("output")
learned = learned[[*learned.columns.drop("nonlinear"), "nonlinear"]]
chapter.table("xia-table-3-1", learned.map(lambda v: "–" if np.isnan(v) else f"{v:.1E}"), data=eeg)

# %% [markdown]
# Variances of standardised outputs. What the bands do in the gaps, with standard deviations and errors in µV; the last column of a
# model is the root mean square of error over standard deviation, one for a calibrated model and larger for one that is too sure:


# %%
def in_gap(model, d):
    gap = removed[:, d]
    y, error = eeg.Y[rows][gap, d], (eeg.Y[rows] - model_means[model])[gap, d]
    (lower, upper), sd = model_bands[model][:, gap, d], model_sds[model][gap, d]
    return {
        "rms error": np.sqrt(np.mean(error**2)),
        "sd": sd.mean(),
        "covered": np.mean((lower <= y) & (y <= upper)),
        "error / sd": np.sqrt(np.mean((error / sd) ** 2)),
    }


gap_table = pd.concat(
    {m: pd.DataFrame({eeg.outputs[d]: in_gap(m, d) for d in range(5)}).T for m in model_means}, axis=1
)
towards_f2 = learned["linear: F2"].dropna()
strong = {name: learned.filter(like="linear").loc[name].max() for name in ("F1", "F2", "F4")}
chain = gap_table["GPLAR + chain back"]["covered"]
chapter.claim(
    "xia-3-c1",
    holds=bool(
        chain["FZ"] < 0.8
        and chain["F1"] < 0.8
        and chain["F2"] > max(chain["FZ"], chain["F1"])
        and towards_f2.max() < 1e-2
        and learned["nonlinear"].max() < 1e-2
        and all(v > 0.1 for v in strong.values())
    ),
    measured="share of removed values inside the 95 % band: "
    + ", ".join(f"{n} {c:.2f}" for n, c in chain.items())
    + f"; largest linear variance towards F2 {towards_f2.max():.1E} (in {towards_f2.idxmax()}), largest nonlinear variance "
    + f"{learned['nonlinear'].max():.1E}, largest linear variance of "
    + ", ".join(f"{n} {v:.2g}" for n, v in strong.items()),
)
chapter.claim(
    "xia-3-c2",
    holds=bool(chain[["FZ", "F1", "F2"]].mean() > 0.95),
    measured=f"95 % bands cover {chain[['FZ', 'F1', 'F2']].mean():.0%} of the {removed[:, :3].sum()} values removed from FZ, F1 and F2 "
    "(over-estimated uncertainty would cover more than 95 %)",
    note="The text says over-estimated where its figures and its explanation mean under-estimated. So few values do not decide.",
)
gap_table.round(2)

# %%
looks = pd.DataFrame(found["covered"], columns=[f"covered, {name}" for name in eeg.outputs[:5]])
looks.insert(0, "bound (nats)", found["bounds"])
looks.index = pd.Index(
    [max(settings.eeg["steps"] // settings.looks, 1) * (i + 1) for i in range(settings.looks)], name="steps"
)
looks.round(2)

# %%
print(f"largest kernel variance of the chain back: {max(v for own in back for part in own for v in part):.1E}")

# %% [markdown]
# The chain fits what it has seen, and its errors in the gaps are well below GPAR's, whose bands are wide. Whether it is too sure of itself depends on when one
# looks. After a quarter of the steps its bands miss half or more of what was removed from FZ, F1 and F2, much as in the thesis. As the bound rises they come
# to cover nearly all; at the end of `quick` FZ is somewhat too sure (errors 1.3 times the standard deviation), F1 is not, and F2 is not sure enough. A twelfth of an electrode's coverage is one
# value: 33 of 36 does not tell over- from under-estimation, and with 1000 steps, our first setting, it was 35 of 36 and c2 held. We went on because the bound was still rising. So claims c1 and c2 are not settled
# here either way by coverage. What is settled for c1 is its reason: F2 *is* read, by F4 and F6, while nobody after F3 needs F1. The electrodes are nearly
# collinear, so which of them a later one reads is open to chance. That nonlinear terms vanish is as published.
#
# The recorded `long` run, with every second sample and so twice as many removed values, is clearer: there the bands of FZ and F1 miss a third of them or more, those of F2 far fewer,
# as published (verdicts above). But there too F4 reads F2.
#
# The chain back has been switched off: its largest kernel variance is below a hundredth of an output's. What we see is one chain.
#
# ### Why: the posterior of a layer knows nothing of the next
#
# The thesis explains the narrow bands by later observations that "directly modify" the variance of an earlier latent. How much, and what
# would be right, can be written down. Take one input in the gap, where $h_1$ has no observation of its own and $y_2 = g_2 + a h_1 +
# \epsilon$ is observed: $g_2$ is what layer 2 explains by the input alone, with prior variances $k_1$ and $k_2$, noise $\sigma^2$. Then
#
# $$
# \mathrm{Var}[h_1 \mid y_2] = \Big(\frac1{k_1} + \frac{a^2}{k_2 + \sigma^2}\Big)^{-1},
# \qquad\text{but the best } q(h_1)\,q(g_2) \text{ has}\qquad
# s_1^2 = \Big(\frac1{k_1} + \frac{a^2}{\sigma^2}\Big)^{-1} .
# $$
#
# The family keeps layers apart, and a product of Gaussians must have the conditional variance of $h_1$ *given* $g_2$: as if $y_2$ were a
# measurement of $h_1$ with nothing but noise in between. With small noise that is a large factor; with no dependence ($a = 0$) there is
# none, as for F2 in the printed Table 3.1. The two agree where $k_2$ is far below $\sigma^2$. A second chain adds $h'_1$, which nobody reads: it keeps
# whatever prior variance training leaves to it.


# %%
def best_variance(k1, k2, noise, a):
    """Of h1, by maximising the bound over the means and variances of q(h1) and q(g2), for y2 = 1."""

    def negative_bound(theta):
        m1, m2, v1, v2 = theta[0], theta[1], *np.exp(theta[2:])
        fit = ((1.0 - m2 - a * m1) ** 2 + v2 + a**2 * v1) / (2 * noise) + 0.5 * np.log(2 * np.pi * noise)
        kl = sum(0.5 * (v / k + m**2 / k - 1 - np.log(v / k)) for m, v, k in ((m1, v1, k1), (m2, v2, k2)))
        return fit + kl

    found = minimize(negative_bound, np.zeros(4), method="BFGS", options={"gtol": 1e-10})
    return float(np.exp(found.x[2]))


def exact_variance(k1, k2, noise, a):
    """Of h1 given y2, by conditioning the joint Gaussian."""
    return k1 - (a * k1) ** 2 / (a**2 * k1 + k2 + noise)


k1, noise = 1.0, 0.01
cases = [(k2, a) for k2 in np.geomspace(1e-3, 3, 15) for a in (0.0, 0.3, 1.0)]
worst = max(abs(best_variance(k1, k2, noise, a) - 1 / (1 / k1 + a**2 / noise)) for k2, a in cases)
apart = max(abs(exact_variance(k1, k2, noise, a) - 1 / (1 / k1 + a**2 / (k2 + noise))) for k2, a in cases)
with chapter.figure(
    "xia-finding-overconfident",
    figsize=(7.2, 4.0),
    alt="Standard deviation of a missing value: exact, and best of the factorised family, against what time alone explains.",
) as ax:
    k2 = np.geomspace(1e-3, 3, 100)
    for a, colour in ((0.3, COLOURS["sky"]), (1.0, COLOURS["blue"])):
        ax.plot(k2, np.sqrt(exact_variance(k1, k2, noise, a)), color=colour, label=f"exact, a = {a:g}")
        ax.axhline(np.sqrt(1 / (1 / k1 + a**2 / noise)), color=colour, ls="--", label=f"q(h₁) q(g₂), a = {a:g}")
    ax.axhline(1.0, color=COLOURS["grey"], lw=1, label="prior, or a = 0")
    ax.set(
        xscale="log",
        xlabel="prior variance $k_2$ of what the input explains of $y_2$",
        ylabel="sd of the missing $h_1$",
    )
    ax.set(ylim=(0, 1.08), title="noise variance 0.01")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
largest = np.sqrt(exact_variance(k1, 1.0, noise, 1.0) * (1 / k1 + 1 / noise))
chapter.claim(
    "xia-3-f1",
    holds=bool(worst <= 1e-5 and apart <= 1e-12 and largest > 5),
    measured=f"optimised bound against the formula: {worst:.0e}; exact variance against the formula: {apart:.0e}; with k₁ = k₂ = a = 1 and noise "
    f"0.01 the exact sd is {largest:.1f} times that of the best factorised posterior",
    data=(),
)

# %% [markdown]
# ## Taking the chain apart (§3.3)
#
# The additive family replaces a GP of many columns by a sum of GPs of one. In the *additive* model a layer adds a function of each
# earlier latent; in the *fully additive* one every latent is split into the part of it that came from each path through the outputs. The table
# is written from the list of components that `additive_gplar` builds; several indices of the printed one are wrong (it has $f_2(\mathbf x,
# h_2)$ for $f_2(\mathbf x, h_1)$, for instance).


# %%
def index(path):
    return "".join(str(p + 1) for p in path)


def term(path, fully):
    """The component of a path, with what it reads."""
    if len(path) == 1:
        return f"g{index(path)}(x)"
    read = path[1:]
    inner = f"h{index(read[:1])}" if not fully else ("g" if len(read) == 1 else "h") + index(read)
    return f"h{index(path)}({inner})"


def decomposition(l, fully):
    paths = [p for p in additive_paths(3, fully, bidirectional=False) if p[0] == l]
    return " + ".join(term(p, fully) for p in sorted(paths, key=lambda p: (len(p), p)))


table = pd.DataFrame(
    {
        "GPLAR": [f"f{l + 1}({', '.join(['x', *(f'h{j + 1}' for j in range(l))])})" for l in range(3)],
        "additive": [decomposition(l, fully=False) for l in range(3)],
        "fully additive": [decomposition(l, fully=True) for l in range(3)],
    },
    index=pd.Index(["h1", "h2", "h3"], name="latent"),
)
chapter.table("xia-table-3-2", table)

# %%
kinds = {"additive": (False, False), "fully additive": (True, False), "bi-directional, fully additive": (True, True)}
counts = pd.DataFrame({L: [len(additive_paths(L, *kind)) for kind in kinds.values()] for L in range(1, 8)}, index=kinds)
formulas = pd.DataFrame({L: [L * (L + 1) // 2, 2**L - 1, 2 * (2**L - 1) - L] for L in range(1, 8)}, index=kinds)
chapter.claim(
    "xia-3-c5",
    holds=bool(counts[3].tolist() == [6, 7, 11] and (counts == formulas).all(axis=None)),
    measured=f"{', '.join(map(str, counts[3]))} components for three outputs; the formulas hold for 1 to 7 outputs",
    note="Several indices in the printed table are wrong; the counts do not depend on them.",
    data=(),
)
counts.rename_axis("outputs", axis="columns")

# %% tags=["hide-input"]
paths = additive_paths(3, fully=True, bidirectional=True)
down = [p for p in paths if len(p) == 1 or p[0] > p[1]]
places = {"x": (4.0, 5.6)} | {f"g{index(p)}": (4.0 * p[0], 4.0) for p in paths if len(p) == 1}
places |= {
    "h12": (-1.2, 2.0), "h13": (1.2, 2.0), "h21": (3.0, 2.0), "h23": (5.0, 2.0), "h31": (6.8, 2.0), "h32": (9.2, 2.0),
    "h123": (-2.4, 0.5), "h321": (10.4, 0.5),
}  # fmt: skip
places |= {f"y{l}": (4.0 * (l - 1), -0.9) for l in (1, 2, 3)}


def node(path):
    return ("g" if len(path) == 1 else "h") + index(path)


edges = [("x", node(p)) for p in paths if len(p) == 1]
edges += [(node(p[1:]), node(p)) for p in paths if len(p) > 1]
edges += [(node(p), f"y{p[0] + 1}") for p in paths]
red = {node(p) for p in paths if p not in down}
with chapter.figure(
    "xia-fig-3-3",
    figsize=(9.5, 5.6),
    alt="Components of the bi-directional fully additive model for three outputs, the backward ones in orange.",
) as ax:
    graph(
        ax,
        places,
        edges,
        labels={name: "$\\mathbf{x}$" if name == "x" else f"${name[0]}_{{{name[1:]}}}$" for name in places},
        observed={"x", "y1", "y2", "y3"},
        colors={name: COLOURS["red"] for name in red}
        | {e: COLOURS["red"] for e in edges if e[0] in red or e[1] in red},
        bend={("h23", "h123"): -0.16, ("h21", "h321"): 0.16},
        radius=0.42,
        fontsize=13,
    )

# %% [markdown]
# Orange: the components of the backward direction. All share the same $g_l$, so that each output has the input in its model once, where
# bi-directional GPLAR has it twice.
#
# ### Does it pay?
#
# The thesis prints no numbers for the additive models, only that they did not beat the others on real data. On the exchange rates of 2007
# (gaps in CAD, JPY and AUD) with the rates of the settings:

# %%
ADDITIVE = ("GPLAR", "bi-GPLAR", "additive GPLAR")


def additive_run(model, source, currencies, thin, steps, gpar_steps, paths, seed):
    """One of ADDITIVE on exchange rates: bound, and errors of what was held out against those of the training mean."""
    rates = load_rows("exchange", source, {"currencies": currencies}, thin)
    data = rates.train.data
    kernels = LayerKernels(1, "linear+nonlinear", nonlinear="rq", input_lengthscale=0.1)
    orders = (data.names, data.names[::-1]) if model == "bi-GPLAR" else (data.names,)
    first = tuple(
        GPAR(
            data,
            kernels,
            order=order,
            starts=1,
            scaling=None,
        )
        for order in orders
    )
    with quietly():
        for one in first:
            fit(one, data, steps=gpar_steps, progress=False)
    common = dict(inducing=rates.X, whiten=False, seed=seed)
    if model == "GPLAR":
        chain = gplar(
            data,
            kernel=kernels,
            strategy="B",
            start=first[0],
            adopt=True,
            **common,
            scaling=None,
        )
    elif model == "bi-GPLAR":
        chain = bi_gplar(
            data,
            kernel=kernels,
            start=first,
            adopt=True,
            **common,
            scaling=None,
        )
    else:
        chain = additive_gplar(
            data,
            kernel=kernels,
            start=first[0],
            **common,
            scaling=None,
        )
        chain.regress(data)
    bound = trained(chain, data, steps)
    mean = Mixture.of(chain, rates.X, paths, seed).mean.mean(0)
    errors = [
        smse(rates.Y[gap, d], mean[gap, d], reference="train", y_train=data.outputs[d].Y[:, 0])
        for d, gap in enumerate(rates.held_out.T)
        if gap.any()
    ]
    return {"bound": bound, "errors": np.array(errors)}


rates = chapter.load("exchange", currencies=settings.currencies)
compared = swept(
    additive_run,
    [
        dict(model=m, source=rates.source, currencies=settings.currencies, **settings.exchange, paths=settings.paths, seed=seed)
        for m in ADDITIVE
    ],
    "gplar-additive",
).set_index("model")  # fmt: skip
held = [f"SMSE of {name}" for name, gap in zip(rates.outputs, rates.held_out.T, strict=True) if gap.any()]
scores = pd.DataFrame({m: compared.errors[m] for m in ADDITIVE}, index=held).T
mean_smse = scores.mean(axis=1)
chapter.claim(
    "xia-3-c6",
    holds=bool(mean_smse["additive GPLAR"] >= mean_smse[["GPLAR", "bi-GPLAR"]].min() - 0.05),
    measured="mean SMSE (against the training mean) "
    + ", ".join(f"{name} {value:.3f}" for name, value in mean_smse.items()),
    data=rates,
)
scores.assign(mean=mean_smse, bound=[compared.bound[m] for m in ADDITIVE]).rename(
    columns={"bound": "bound (nats)"}
).round(3)

# %% [markdown]
# The additive chain starts as in the author's code: the GPs over time are regressed on their outputs, the others are at zero. At `quick` its
# bound is still rising, and the three means differ by less than the margin of the rule: "did not beat" holds, a ranking does not follow.

# %% [markdown]
# ## What we found that the document does not say
#
# - **Narrow bands can come from the family alone.** The best posterior that keeps layers apart treats a later output as a measurement of the
#   missing one with nothing but noise in between (figure above). This is shown for one input; on the electrodes other things move the bands too.
# - **Training decides what one sees.** On the functions, Adam and natural gradients give different answers in as many steps. On the electrodes a chain
#   looks far too sure after few steps and much less so later.
# - **The light chain back is not used** on the electrodes: training takes its variances to nearly nothing.
# - **Small start values delay, they do not bind.** The chain leaves the independent GPs in the end.
# - **Adding the chains is not averaging them.** With the sum, two chains that both start at GPAR's means start at $2y$. The light chain back starts at
#   zero and is added; two full chains are averaged.
# - **The words over- and under-estimate are swapped** in §3.2.2 and §4.3.2: bands that are too narrow under-estimate the uncertainty.
#
# ## Exercises

# %% [markdown] tags=["exercise"]
# **Exercise 1.** Order matters. Fit GPAR to the three functions with gaps in the orders $y_1 \to y_2 \to y_3$, $y_3 \to y_2 \to y_1$ and in the order
# that `greedy_order` finds. Compare the log evidences with the errors inside the gaps: is the order with the largest evidence the best one for the
# gap of $y_1$?

# %% tags=["solution"]
gappy, kernels = functions.train.data, LayerKernels(1, **recipe)
steps = settings.functions["gpar_steps"]
found_order = greedy_order(gappy, kernels, steps=steps, noise=0.05, scaling=None).order
orders = {"as given": gappy.names, "backward": gappy.names[::-1], "greedy": found_order}
by_order = {}
for name, order in orders.items():
    model = GPAR(gappy, kernels, order=order, noise=0.05, starts=1, scaling=None)
    fit(model, gappy, steps=steps, progress=False)
    mean = np.asarray(model.predict_f(GRID[:, None], samples=settings.paths).mean)
    rms = {
        f"rms error of {n} in its gap": np.sqrt(np.mean((mean - truth)[gaps[n], d] ** 2)) for d, n in enumerate(gaps)
    }
    by_order[name] = {"order": " → ".join(order), "log evidence (nats)": model.elbo(), **rms}
pd.DataFrame(by_order).T

# %% [markdown] tags=["solution"]
# At `quick` the order as given has the largest evidence by far, and yet the largest error in the gap of $y_1$, though not by much: the
# evidence is about observed values, and an output that comes first has only the input in its gap. Coming last is no cure by itself. $y_3 = y_2 y_1^2 +
# 3x$ has lost the sign of $y_1$, so $y_1$ gains little from reading it. And $y_2 = \cos^2 y_1 + \sin 3x$ is known from $x$ and $y_1$: it does best in second place,
# and worst where it comes before $y_1$. An order should put an output after those that determine it.

# %% [markdown] tags=["exercise"]
# **Exercise 2.** Why is a chain over-confident in a closed-upwards gap? Extend the one-point example to $K$ later outputs, $y_k = g_k + a h_1 +
# \epsilon_k$. Compare the exact variance of $h_1$ with that of the best factorised posterior for $K = 1, 2, 5$.

# %% tags=["solution"]
exact = {K: 1 / (1 / k1 + K / (1.0 + noise)) for K in (1, 2, 5)}
factorised = {K: 1 / (1 / k1 + K / noise) for K in exact}
pd.DataFrame({"exact sd": exact, "factorised sd": factorised}).map(np.sqrt).assign(
    ratio=lambda t: t["exact sd"] / t["factorised sd"]
).rename_axis("later outputs K").round(3)

# %% [markdown] tags=["solution"]
# Given $h_1$, the later outputs are independent with variance $k_g + \sigma^2$, so precisions add: $1/k_1 + K a^2/(k_g + \sigma^2)$. In the factorised
# posterior each adds $a^2/\sigma^2$. The factor between the two tends to $\sqrt{1 + k_g/\sigma^2}$ and does not go away with more outputs.

# %%
chapter.finish()
