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
# # Giraldo L: Many annotators
#
# Labels are bought from people who know some things and guess at others. The appended paper L of {cite}`giraldo2021thesis` makes
# the reliability of every annotator a function of the input, puts a correlated prior over the functions of the truth and of all the
# annotators, and so gets a chained GP (chapter 3) that learns *what is true* and *whom to believe where* from annotations alone.
#
# | | |
# |---|---|
# | **Shows** | L-Tables I–IX and L-Figs 1–4; claims giraldo-l-c1 to c16 |
# | **Adds** | why the class model is no likelihood, and what that costs; how exact its expectations are; a dashboard of annotators; amplitude against correlation; annotators who lie, which the model takes for annotators who guess; calibration; fewer annotations a row |
# | **Data** | two synthetic sets; ten tables of classes and six of values with simulated annotators, of which CT must be downloaded and is not used here; music genres with seven real annotators; the voices are sold, and Parkinson voices with simulated annotators stand in |
# | **Time** | `smoke` half a minute; `quick` two to three minutes on one core; `long` about half an hour on two; `paper` has fifteen repetitions and $M = 80$ |

# %% tags=["parameters"]
profile = "quick"
seed = 0

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from scipy import special
from scipy.stats import qmc

from mogp import MultiOutputData, fit, likelihoods, metrics
from mogp.book import Chapter
from mogp.book.baselines import DawidSkene, majority_vote
from mogp.book.plots.dashboard import annotator_dashboard, most_trusted
from mogp.book.runs.annotator_methods import CLASS_METHODS, VALUE_METHODS, fitted
from mogp.book.runs.annotator_runs import annotated, annotator_run, recovered, scores
from mogp.experiments import sweep
from mogp.inducing import kmeans_points
from mogp.kernels import unit_kernels
from mogp.models import AnnotatedMOGP, ccgpma
from mogp.optimizers import NaturalAdam
from mogp.plotting import COLOURS, bands
from mogp.posteriors import Full
from mogp.priors import LMC
from mogp.project import data_folder

chapter = Chapter("giraldo/L", profile=profile, seed=seed)

# %% [markdown]
# `toy` is for the two synthetic sets, `music` for the data with real annotators, `runs` for the tables with simulated ones. Every
# GP is trained by natural gradients on $q(\mathbf u)$ and Adam on the rest, in place of the paper's AdaDelta: it levels off within
# some hundred steps. As in the paper, up to 500 rows are used whole and more in batches. At `smoke` one step is taken, so
# that nothing is learned, and skill varies along the first principal component of a table. Where a claim can be read off the printed
# numbers, re-runs have a say from `long` on (`decides`), which has the sets and repetitions that the rules ask for.

# %%
SMALLEST = ("wine", "bupa", "ionosphere", "breast", "pima", "tic-tac-toe")
CLASS_SETS = (
    "breast",
    "bupa",
    "ionosphere",
    "pima",
    "tic-tac-toe",
    "occupancy",
    "skin",
    "western",
    "wine",
    "segmentation",
)
VALUE_SETS = ("autompg", "bike", "concrete", "boston", "yacht", "ctslice")
FEW_CLASSES = ("GPC-GOLD", "GPC-MV", "MA-LFC-C", "MA-DGRL", "CGPMA-C", "CCGPMA-C")
FEW_VALUES = ("GPR-GOLD", "GPR-Av", "MA-LFCR", "MA-GPR", "CGPMA-R", "CCGPMA-R")
settings = chapter.settings(
    smoke=dict(
        eager=True, workers=0, decides=False, repetitions=1, told=(1,), lie_steps=1, CT=False, periodic=0,
        toy=dict(inducing=5, steps=1, batch_size=20), toy_size=dict(N=100, test=100), value_size=dict(N=40, test=100),
        runs=dict(inducing=5, steps=1), class_sets=("wine",), class_methods=("GPC-MV", "MA-LFC-C", "CGPMA-C", "CCGPMA-C"),
        value_sets=("yacht",), value_methods=("GPR-Av", "CCGPMA-R"), loading=dict(most_rows=100, embedding="pca"),
        music=dict(inducing=5, steps=1, batch_size=20), music_classes=("GPC-GOLD", "GPC-MV", "CCGPMA-C"),
        music_values=("GPR-GOLD", "GPR-Av", "CCGPMA-R"), voice_methods=("CCGPMA-C",),
    ),
    quick=dict(
        eager=False, workers=0, decides=False, repetitions=1, told=(1,), lie_steps=150, CT=False, periodic=0,
        toy=dict(inducing=10, steps=200, batch_size=200), toy_size=dict(N=1000, test=2000), value_size=dict(N=100, test=1000),
        runs=dict(inducing=40, steps=150), class_sets=("bupa", "ionosphere", "wine"), class_methods=FEW_CLASSES,
        value_sets=("autompg", "yacht"), value_methods=FEW_VALUES, loading=dict(most_rows=2000),
        music=dict(inducing=40, steps=200, batch_size=100), music_classes=("GPC-GOLD", "GPC-MV", "CGPMA-C", "CCGPMA-C"),
        music_values=("GPR-GOLD", "GPR-Av", "MA-LFCR", "CGPMA-R", "CCGPMA-R"), voice_methods=("GPC-MV", "CCGPMA-C"),
    ),
    long=dict(
        eager=False, workers=2, decides=True, repetitions=5, told=(1, 2, 3), lie_steps=500, CT=False, periodic=2000,
        toy=dict(inducing=10, steps=600, batch_size=200), toy_size=dict(N=1000, test=2000), value_size=dict(N=100, test=1000),
        runs=dict(inducing=40, steps=300), class_sets=CLASS_SETS, class_methods=CLASS_METHODS,
        value_sets=VALUE_SETS[:5], value_methods=VALUE_METHODS, loading=dict(most_rows=2000),
        music=dict(inducing=40, steps=600, batch_size=100), music_classes=CLASS_METHODS, music_values=VALUE_METHODS,
        voice_methods=CLASS_METHODS,
    ),
    paper=dict(
        eager=False, workers=None, decides=True, repetitions=15, told=(1, 2, 3), lie_steps=2000, CT=True, periodic=20_000,
        toy=dict(inducing=10, steps=4000, batch_size=100), toy_size=dict(N=1000, test=2000), value_size=dict(N=100, test=1000),
        runs=dict(inducing=80, steps=3000), class_sets=CLASS_SETS, class_methods=CLASS_METHODS,
        value_sets=VALUE_SETS, value_methods=VALUE_METHODS, loading=dict(most_rows=None),
        music=dict(inducing=80, steps=4000, batch_size=100), music_classes=CLASS_METHODS, music_values=VALUE_METHODS,
        voice_methods=CLASS_METHODS,
    ),
)  # fmt: skip
tf.config.run_functions_eagerly(settings.eager)  # for two steps a compiled graph does not pay

# %% [markdown]
# ## Why a vote is not enough (§I, §II)
#
# The paper's synthetic classes: three classes over $[0, 1]$, five annotators. Where an annotator is reliable, he names the true class,
# elsewhere one of the others, and *where* is different for each. A vote counts heads, so it fails wherever the majority fails, however
# good the one who knows:

# %%
toy = chapter.load("annotators-synth-class", **settings.toy_size)
K, R = 3, 5
votes = majority_vote(toy.train.annotated, K)[0].Y
right = np.column_stack([toy.train.per_row["annotations"] == toy.train.Y, votes == toy.train.Y])
tenth = np.minimum((10 * toy.train.X[:, 0]).astype(int), 9)
by_tenth = np.array([right[tenth == t].mean(0) for t in range(10)])

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(7.6, 3.0))
image = ax.imshow(by_tenth.T, cmap="viridis", vmin=0, vmax=1, aspect="auto", extent=(0, 1, 5.5, -0.5))
ax.set_yticks(range(6), [*(f"annotator {r + 1}" for r in range(R)), "majority vote"])
for (t, row), share in np.ndenumerate(by_tenth):
    ax.text(
        (t + 0.5) / 10,
        row,
        f"{share:.2f}",
        ha="center",
        va="center",
        fontsize=9,
        color="white" if share < 0.6 else "black",
    )
ax.axhline(4.5, color="white", lw=3)
ax.set(xlabel="x", title="share of right labels, by tenths of the input")
ax.grid(False)
fig.colorbar(image, ax=ax, fraction=0.04, pad=0.02).outline.set_visible(False)
plt.show()

# %%
best = by_tenth[:, :R].max(1)
pd.Series(
    {
        "majority vote, everywhere": right[:, R].mean(),
        "best annotator, everywhere": right[:, :R].mean(0).max(),
        "best annotator of each tenth": best.mean(),
        "majority vote in its worst tenth": by_tenth[:, R].min(),
    },
    name="share of right labels",
).round(3).to_frame()

# %% [markdown]
# What other methods model, as the paper surveys it. Before CCGPMA none has both of the last two columns.


# %%
def published(name):
    """Printed numbers."""
    return pd.read_csv(data_folder() / "published" / f"giraldo-l-{name}.csv")


survey = published("table-1")
chapter.table("giraldo-l-table-1", survey)
both = survey[(survey.iloc[:, -2:] == "yes").all(axis=1)]["method"].tolist()
print("with an expertise that depends on the input and dependencies between annotators:", ", ".join(both))

# %% [markdown]
# ## Two models of an annotation (§III)
#
# **Classes.** Functions $f_1, \dots, f_K$ make the class probabilities, and a function $f_{K+r}$ for each annotator his reliability:
#
# $$
# p(y_n^r = k \mid \mathbf f) = \zeta_k^{\lambda^r}\, K^{-(1 - \lambda^r)}, \qquad
# \boldsymbol\zeta = \mathrm{softmax}(f_1, \dots, f_K), \quad \lambda^r = \varsigma(f_{K+r}),
# $$
#
# all at $\mathbf x_n$. An annotator with $\lambda = 1$ draws from the class probabilities, one with $\lambda = 0$ from all classes alike. In
# the paper $\lambda$ is a step, zero or one; the logistic function $\varsigma$ takes its place to have gradients.
#
# **Values.** The truth is $f_1$, and each annotator adds noise of his own: $y_n^r \sim \mathcal N(f_1, e^{f_{1+r}})$.
#
# Both are sums over the annotators $r \in R_n$ who said something, and both need expectations under $q$. With independent marginals
#
# $$
# \mathbb E_q \log p(y^r) = \mathbb E[\lambda^r]\,\mathbb E[\log \zeta_{y^r}] - (1 - \mathbb E[\lambda^r])\log K, \qquad
# \mathbb E[\log\zeta_k] = m_k - \mathbb E\Big[\log\sum_j e^{f_j}\Big],
# $$
#
# and for values the closed form of the heteroscedastic Gaussian (chapter 3).
#
# ### It is not a likelihood
#
# With the step, $\lambda \in \{0, 1\}$, the class model is a distribution over labels. With $\varsigma$ it is not: between 0 and 1 the
# probabilities of the labels do not sum to one.


# %%
def mass(zeta, trust):
    """The sum over all labels of the model of one annotation."""
    zeta, trust = np.asarray(zeta), np.asarray(trust, float)
    return np.sum(zeta ** trust[..., None], axis=-1) * zeta.shape[-1] ** (trust - 1)


example = np.array([0.7, 0.2, 0.1])
trusts = np.linspace(0, 1, 101)
masses = np.array([mass(example, t) for t in trusts])
library = np.exp(
    [
        float(
            likelihoods.AnnotatedClasses(3, 1).log_prob(
                np.zeros((1, 0)), np.concatenate([np.log(example), [0.0]])[None], np.array([[float(k)]])
            )[0]
        )
        for k in range(3)
    ]
).sum()
chapter.claim(
    "giraldo-l-c15",
    holds=bool(np.allclose(masses, 1, atol=1e-9)),
    measured=f"sum over the classes for ζ = (0.7, 0.2, 0.1): {mass(example, 0.5):.3f} at λ = 0.5 (the library's density: {library:.3f}), "
    f"{masses[0]:.0f} at λ = 0 and {masses[-1]:.0f} at λ = 1, below 1 at the other {np.sum(masses < 1 - 1e-9)} of 101 values",
    note="A pseudo-likelihood. With the step function of the paper's text it would be normalised.",
)

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.6, 3.3))
for top, colour in ((0.7, "blue"), (0.9, "orange"), (0.999, "red")):
    zeta = np.array([top, *[(1 - top) * w for w in (2 / 3, 1 / 3)]])
    axes[0].plot(trusts, [mass(zeta, t) for t in trusts], color=COLOURS[colour], label=f"{top:g}")
axes[0].axhline(1, color="black", lw=0.8, ls=":")
axes[0].legend(title="largest ζ", loc="lower right")
axes[0].set(xlabel="reliability λ", ylabel="sum over labels", title="K = 3", ylim=(0.3, 1.03))
for classes, colour in ((2, "blue"), (3, "orange"), (10, "red")):
    sure = 1 - 10.0 ** -np.linspace(0.5, 12, 60)
    lowest = [min(mass(np.array([s, *[(1 - s) / (classes - 1)] * (classes - 1)]), t) for t in trusts) for s in sure]
    axes[1].plot(1 - sure, -np.log(lowest), color=COLOURS[colour], label=f"{classes}")
    axes[1].axhline(np.log(classes), color=COLOURS[colour], lw=0.9, ls=":")
axes[1].set(xscale="log", xlabel="1 − largest ζ", ylabel="nats an annotation", title="missing mass at the worst λ")
axes[1].invert_xaxis()
axes[1].legend(title="K", loc="upper left")
plt.show()

# %% [markdown]
# The surer the class, the more is missing, up to $\log K$ nats an annotation (dotted). That mass depends on the functions, so two
# bounds with this likelihood differ by more than how well they explain the data, and a bound with a normalised likelihood is not comparable
# at all. Below, models are compared by their predictions.
#
# ### How exact are the expectations?
#
# $\boldsymbol\zeta$ depends on differences of functions only. For $K \le 3$ the library integrates over those $K - 1$ differences by
# Gauss–Hermite quadrature, in one dimension less than the paper's grid; for more classes, where a grid is out of the question ($20^{10}$
# nodes for Music), it averages over 128 fixed Sobol points. Against references of 60 nodes a function, or $2^{16}$ points:


# %%
def expected_log_zeta(mean, var, **options):
    """E[log ζ] by the library: an annotator who is certainly reliable names each class in turn."""
    classes = mean.shape[1]
    likelihood = likelihoods.AnnotatedClasses(classes, 1, **options)
    F, V = (np.column_stack([part, np.full(len(part), last)]) for part, last in ((mean, 40.0), (var, 1e-12)))
    return np.column_stack([likelihood.each(F, V, np.full((len(F), 1), float(k))) for k in range(classes)])


def reference(mean, var):
    classes = mean.shape[1]
    if classes <= 3:
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        grids = np.stack(np.meshgrid(*[nodes] * classes, indexing="ij"), -1).reshape(-1, classes)
        weight = np.prod(np.stack(np.meshgrid(*[weights] * classes, indexing="ij"), -1).reshape(-1, classes), 1)
    else:
        grids = special.ndtri(qmc.Sobol(classes, rng=1).random(2**16))
        weight = np.ones(len(grids))
    weight = weight / weight.sum()
    return np.array(
        [weight @ special.log_softmax(m + np.sqrt(v) * grids, axis=1) for m, v in zip(mean, var, strict=True)]
    )


rng = np.random.default_rng(seed)
errors = []
for classes in (2, 3, 7, 10):
    m, v = 2 * rng.standard_normal((4, classes)), rng.uniform(0.1, 4, (4, classes))
    error = np.abs(expected_log_zeta(m, v) - reference(m, v))
    errors.append({"K": classes, "points": 20 ** (classes - 1) if classes <= 3 else 128, "largest error (nats)": f"{error.max():.1e}", "mean error": f"{error.mean():.1e}"})  # fmt: skip
pd.DataFrame(errors).set_index("K")

# %% [markdown]
# The points are the same for every row and step, so the error is a small, fixed change of the objective, not noise.
#
# ### The four choices, in the open
#
# CCGPMA is a `SparseMOGP`: an LMC prior over the $J = K + R$ functions, a full posterior over inducing values of $Q = J$ latent GPs, and
# one output with a column of labels for each annotator. `ccgpma` is these lines; `cgpma` has an independent prior of unit variance in place
# of the LMC, which is the published $\mathbf W = \mathbf I$.

# %%
told = toy.train.annotated
named = ccgpma(told, K, inducing=settings.toy["inducing"], seed=seed, scaling=None, start="plain")
J = K + R
W = np.eye(J) + 0.1 * np.random.default_rng(seed).standard_normal((J, J))
lengthscale = float(named.prior.kernels.kernels[0].lengthscales.numpy())

open_model = AnnotatedMOGP(
    prior=LMC(unit_kernels(J, told.input_dim, lengthscale, ard=False), functions=J, W=W),
    inducing=kmeans_points(told, settings.toy["inducing"], sets=J, seed=seed),
    posterior=Full(whiten=True),
    likelihood=[likelihoods.AnnotatedClasses(K, R)],
    names=told.names,
)
print(f"objective before training: {float(open_model.elbo(told)):.6f} here, {float(named.elbo(told)):.6f} from ccgpma")

# %% [markdown]
# ## The data and the methods (§IV-A, §IV-B)
#
# The tables of the paper, with what the loaders give.

# %%
loaded = {"synthetic": chapter.load("annotators-synth-class")}
loaded |= {name: chapter.load(name) for name in CLASS_SETS}
loaded |= {"voice": chapter.load("parkinsons", instead_of="voice"), "music": chapter.load("music")}
value_loaded = {"synthetic": chapter.load("annotators-synth-reg")}
value_loaded |= {name: chapter.load(name) for name in VALUE_SETS if name != "ctslice" or settings.CT}
value_loaded |= {"music": chapter.load("music", task="regression")}


def shapes(table, sets):
    """The printed sizes beside those of the loaders; rows of a toy that are held out are not counted."""
    rows = []
    for row in table.itertuples():
        data = sets.get(row.data)
        size = None
        if data is not None:
            used = data.train if row.data == "synthetic" else data
            size = (used.X.shape[1], len(used), *(len(c) for c in used.classes.values()))
        printed = (row.features, row.instances, *((row.classes,) if hasattr(row, "classes") else ()))
        rows.append(
            {
                "kind": row.kind,
                "data": row.data if data is None or not data.instead_of else f"{row.data} (here: {data.name})",
                "printed": " × ".join(map(str, printed)),
                "loaded": "–" if size is None else " × ".join(map(str, size)),
                "differs": "not loaded"
                if size is None
                else "stand-in"
                if data.instead_of
                else ""
                if size == printed
                else "yes",
            }
        )
    return pd.DataFrame(rows)


class_sizes, value_sizes = shapes(published("table-2"), loaded), shapes(published("table-4"), value_loaded)
chapter.table("giraldo-l-table-2", class_sizes, data=list(loaded.values()))

# %%
missing_ct = "" if settings.CT else "CT must be downloaded and was not loaded"
chapter.table("giraldo-l-table-4", value_sizes, data=list(value_loaded.values()), partial=missing_ct)

# %% [markdown]
# (Features × rows × classes.) The text of the paper has $N = 1000$ synthetic points where its table has 100, and speaks of seven UCI sets
# where it lists nine. Of the features, Occupancy's date and index, Skin's fourth and Concrete's and Auto's extra column are presumably
# columns that are no features, or the target; Western depends on how recordings are cut.

# %%
differing = pd.concat([class_sizes, value_sizes]).query("differs == 'yes'")
chapter.claim(
    "giraldo-l-c16",
    holds=bool(differing.empty),
    measured=f"{len(differing)} of {len(class_sizes) + len(value_sizes)} rows differ (printed / loaded): "
    + "; ".join(f"{row.data} {row.printed} / {row.loaded}" for row in differing.itertuples()),
    note="N = 1000 of the paper's text is used for the synthetic classes. Voice is not available and not counted; nor is CT where it was not loaded.",
    data=[data for data in (*loaded.values(), *value_loaded.values()) if not data.instead_of],
)

# %%
IMPLEMENTED = {*CLASS_METHODS, *VALUE_METHODS}


def methods_table(name):
    frame = published(name)
    return frame.assign(**{"in this chapter": ["measured" if m in IMPLEMENTED else "quoted" for m in frame["method"]]})


chapter.table("giraldo-l-table-3", methods_table("table-3"))
chapter.table("giraldo-l-table-5", methods_table("table-5"))

# %% [markdown]
# "Quoted" methods appear below with printed numbers only. To the measured ones we add GPC-DS, a GP classifier on the labels of
# {cite}`dawid1979`, and in longer runs GPC-EACH, a GP for each annotator whose predictions are averaged, and CGPMA with learned
# amplitudes.
#
# ## Synthetic classes (§IV-A)
#
# Each method sees the annotations of the training points only, except GPC-GOLD, which sees the truth.

# %%
TOY_METHODS = ("GPC-GOLD", "GPC-MV", "MA-LFC-C", "MA-DGRL", "CGPMA-C", "CCGPMA-C", "CGPMA-C + amplitudes")
on_toy = {method: fitted(method, toy.train, **settings.toy) for method in TOY_METHODS}
toy_scores = pd.DataFrame({method: scores(found, toy.train, toy.test) for method, found in on_toy.items()}).T
shown = np.linspace(0, len(toy.test) - 1, min(len(toy.test), 400)).round().astype(int)
x_shown = toy.test.X[shown]

# %% tags=["hide-input"]
with chapter.figure(
    "giraldo-l-fig-1",
    nrows=2,
    ncols=3,
    figsize=(10.2, 5.4),
    sharex=True,
    sharey=True,
    data=toy,
    partial="MA-GPC, MA-GPCV, MA-DL and KAAR are not implemented; their printed AUCs are in the table below",
    alt="Six panels with the probabilities of three classes over the input: gold and the two chained models switch sharply between "
    "classes where the truth does; majority vote is unsure between 0.2 and 0.6; MA-LFC-C follows and MA-DGRL is too smooth.",
) as axes:
    printed_auc = published("fig-1").set_index("method")["auc"]
    for ax, method in zip(axes.flat, TOY_METHODS[:6], strict=True):
        p, sd = on_toy[method].gold(x_shown)
        for k, colour in enumerate(("blue", "orange", "green")):
            if np.isnan(sd).all():
                ax.plot(x_shown, p[:, k], color=COLOURS[colour], label=f"class {k + 1}")
            else:
                low, high = np.maximum(p[:, k] - 2 * sd[:, k], 0), np.minimum(p[:, k] + 2 * sd[:, k], 1)
                bands(ax, x_shown, p[:, k], lower=low, upper=high, color=COLOURS[colour], label=f"class {k + 1}")
        truth = toy.test.Y[shown, 0]
        for k, colour in enumerate(("blue", "orange", "green")):
            ax.plot(x_shown[truth == k], np.full(np.sum(truth == k), -0.07), "|", color=COLOURS[colour], ms=5)
        ax.set(
            title=f"{method}\nAUC {toy_scores['auc'][method]:.4f} (printed {printed_auc[method]:.4f})",
            ylim=(-0.12, 1.05),
        )
    for ax in axes[1]:
        ax.set_xlabel("x")
    for ax in axes[:, 0]:
        ax.set_ylabel("probability")
    axes[0, 0].figure.legend(
        *axes[0, 0].get_legend_handles_labels(), title="mean, ± 2 sd where there is one; below: the truth",
        loc="outside lower center", ncols=3,
    )  # fmt: skip

# %%
pd.DataFrame({"measured": toy_scores["auc"].astype(float), "accuracy": toy_scores["accuracy"].astype(float), "printed AUC": printed_auc}).reindex(
    [*TOY_METHODS, *(m for m in printed_auc.index if m not in TOY_METHODS)]
).round(4).rename(columns={"measured": "measured AUC", "accuracy": "measured accuracy"})  # fmt: skip

# %%
below = [m for m in printed_auc.index if printed_auc[m] < printed_auc["GPC-MV"]]
auc = toy_scores["auc"].astype(float)
matches = bool(auc["CCGPMA-C"] >= max(0.99, auc["GPC-MV"]) and abs(auc["CCGPMA-C"] - auc["GPC-GOLD"]) <= 0.01)
chapter.claim(
    "giraldo-l-c1",
    holds=bool(set(below) == {"KAAR", "MA-GPCV"} and (matches or not settings.decides)),
    measured=f"printed AUCs below GPC-MV: {', '.join(below)}; measured AUC: CCGPMA-C {auc['CCGPMA-C']:.4f}, GPC-GOLD {auc['GPC-GOLD']:.4f}, "
    f"GPC-MV {auc['GPC-MV']:.4f}",
    note="The first half of the claim is re-run, the second can only be read off the printed numbers: MA-GPCV is not below majority voting there.",
)

# %% [markdown]
# Nearly every AUC is one: three classes in a row on a line are easy to *rank*, for a logistic regression too. What majority voting gets wrong
# are the borders, which the accuracy shows and the AUC does not.
#
# Does training level off? The objective in the last tenth of the steps, against the tenth before, as a share of all that was gained:

# %%
pd.Series(
    {m: f"{round(f.still_gained, 3) + 0:.1%}" if len(f.elbo) >= 10 else "–" for m, f in on_toy.items() if len(f.elbo)},
    name="gained in the last tenth",
).to_frame()

# %% [markdown]
# ### Who is reliable where
#
# The truth of the simulation is dashed. MA-DGRL has one number for an annotator; both chained models find where he turns, though nobody
# told them what is true. The estimates are steps where the truth is smooth, and rightly so: a simulated label is right exactly where
# $\lambda^r \ge \frac12$, and how far above makes no difference to the data.

# %% tags=["hide-input"]
true_trust = toy.test.per_row["reliability"]
with_trust = {m: on_toy[m] for m in ("MA-DGRL", "CGPMA-C", "CCGPMA-C")}
found_trust = {m: recovered(f.reliability(toy.test.X)[0], toy.test) for m, f in with_trust.items()}
with chapter.figure(
    "giraldo-l-fig-2",
    nrows=R,
    ncols=4,
    figsize=(9.6, 9.2),
    sharex=True,
    sharey=True,
    data=toy,
    alt="Rows of panels for five annotators: the true reliability, a constant estimate by MA-DGRL, and estimates by CGPMA-C and "
    "CCGPMA-C that follow the truth up and down.",
) as axes:
    for r in range(R):
        for ax in axes[r]:
            ax.plot(x_shown, true_trust[shown, r], color="black", ls="--", lw=1.2, label="truth")
            ax.axhline(0.5, color=COLOURS["grey"], lw=0.7, ls=":")
        for ax, (method, found) in zip(axes[r, 1:], with_trust.items(), strict=True):
            mean, sd = found.reliability(x_shown)
            low, high = (np.clip(mean[:, r] + s * sd[:, r], 0, 1) for s in (-2, 2))
            bands(
                ax,
                x_shown,
                mean[:, r],
                lower=low,
                upper=high,
                color=COLOURS["blue"],
                label="estimate",
                band_label="± 2 sd",
            )
            ax.set_title(
                f"{method if r == 0 else ''}\n{found_trust[method][r]:.0%} on the right side of ½".strip(),
                fontsize=10.5,
            )
        axes[r, 0].set_ylabel(f"annotator {r + 1}")
    axes[0, 0].set_title("truth", fontsize=10.5)
    axes[0, 0].set(ylim=(-0.04, 1.04), xlim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    for ax in axes[-1]:
        ax.set_xlabel("x")
    axes[0, 0].figure.supylabel("reliability λ")
    axes[0, 0].figure.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=3)

# %%
trust_accuracy = {m: float(found_trust[m].mean()) for m in with_trust}
spread = float(np.ptp(on_toy["MA-DGRL"].reliability(toy.test.X)[0], axis=0).max())
chapter.claim(
    "giraldo-l-c2",
    holds=bool(trust_accuracy["CCGPMA-C"] >= trust_accuracy["CGPMA-C"] > trust_accuracy["MA-DGRL"] and spread == 0),
    measured="reliability on the right side of ½, mean over the annotators: "
    + ", ".join(f"{m} {a:.3f}" for m, a in trust_accuracy.items())
    + f"; spread of MA-DGRL over x: {spread:g}",
)

# %% [markdown]
# The same model on one page, as one would look at annotators whose truth is not known (the shares in the last panel need it):

# %% tags=["hide-input"]
with chapter.figure(
    "giraldo-finding-dashboard-toy",
    nrows=2,
    ncols=2,
    figsize=(10.4, 7.6),
    data=toy,
    alt="Four panels: reliability curves of five annotators, a matrix of their agreement, lanes that show along the "
    "input who is alone in front, and bars of the number of labels with the share that is right.",
) as axes:
    annotator_dashboard(on_toy["CCGPMA-C"].model, told, toy.train.Y, axes=axes, xlabel="x")

# %% [markdown]
# ## Ten tables with simulated annotators (§IV-A)
#
# The simulation gives each row a coordinate in $[0, 1]$ (one-dimensional t-SNE) and lets skill vary along it, as on the synthetic data. The
# models see the features, not the coordinate. A wrong label of two classes is always *the other class*. Splits are 70 / 30.


# %%
def source_of(data):
    return "real" if data.source == "real" or data.instead_of else "stand-in"


def swept(sets, data, methods, *, name="annotators"):
    """A run for each set, method and repetition."""
    points = [
        dict(data=s, source=source_of(data[s]), method=m, repetition=r, loading=settings.loading, **settings.runs)
        for s in sets for m in methods for r in range(settings.repetitions)
    ]  # fmt: skip
    return sweep(annotator_run, points, name=name, workers=settings.workers, progress=False)


def beside_printed(runs, table, score, every, methods, digits, factor=1.0):
    """Measured scores (mean ± sd over repetitions) above printed ones; averages are over the sets that were run."""
    run_sets = [s for s in every if s in set(runs["data"])]

    def cell(values):
        values = factor * np.asarray(values, float)
        return f"{values.mean():.{digits}f}" + (f" ± {values.std():.{digits}f}" if len(values) > 1 else "")

    rows = []
    for method in methods:
        own = runs[runs["method"] == method].groupby("data")[score]
        cells = {s: cell(own.get_group(s)) if s in own.groups else "–" for s in every}
        average = factor * np.mean([own.get_group(s).mean() for s in run_sets])
        rows.append(
            {"method": method, "numbers": "measured", **cells, "average of the sets run": f"{average:.{digits}f}"}
        )
    frame = table.assign(inducing=table["inducing"].fillna(0))
    for (method, M), part in frame.groupby(["method", "inducing"], sort=False):
        own = part.set_index("data")
        cells = {
            s: f"{own.loc[s, 'mean']:.{digits}f}"
            + ("" if np.isnan(own.loc[s, "sd"]) else f" ± {own.loc[s, 'sd']:.{digits}f}")
            for s in every
        }
        kind = "printed" if method in IMPLEMENTED else "quoted"
        kind += f", M = {M:.0f}" if M else ""
        rows.append({"method": method, "numbers": kind, **cells, "average of the sets run": f"{own.loc[run_sets, 'mean'].mean():.{digits}f}"})  # fmt: skip
    return pd.DataFrame(rows)


most_rows = settings.loading["most_rows"]
sampled_down = f"larger sets sampled down to {most_rows} rows" if most_rows else ""


def left_out(every, run):
    missing = [s for s in every if s not in run]
    return f"not run at this scale: {', '.join(missing)}" if missing else ""


class_runs = swept(settings.class_sets, loaded, settings.class_methods)
printed_6 = published("table-6")
chapter.table(
    "giraldo-l-table-6",
    beside_printed(class_runs, printed_6, "auc", CLASS_SETS, settings.class_methods, 2, factor=100),
    data=[loaded[s] for s in settings.class_sets],
    partial="; ".join(
        filter(
            None,
            [
                left_out(CLASS_SETS, settings.class_sets),
                f"{settings.repetitions} of 15 repetitions" if settings.repetitions < 15 else "",
                sampled_down,
            ],
        )
    ),
)

# %% [markdown]
# (AUC in per cent. Measured with $M$ of the profile; averages of printed rows are over the same sets.) The AUC forgives a threshold in
# the wrong place: a model that ranks rows well may still name one class nearly everywhere. The shares of right predictions beside it:

# %%
accuracies = class_runs.groupby(["method", "data"])["accuracy"].mean().unstack()
pd.concat(
    {"accuracy": accuracies, "AUC": class_runs.groupby(["method", "data"])["auc"].mean().unstack()}, axis=1
).reindex(settings.class_methods).round(3)

# %% [markdown]
# The document's claims about this table:


# %%
def averages(table):
    """Printed averages by method and M, highest first."""
    own = table[table["data"] == "average"].assign(inducing=table["inducing"].fillna(0).astype(int))
    return own.set_index(["method", "inducing"])["mean"]


def best_of(series, methods):
    return max(series[m].max() for m in methods)


def measured_averages(runs, score):
    return runs.groupby(["method", "data"])[score].mean().groupby("method").mean()


average_6 = averages(printed_6)
rivals = [m for m in average_6.index.unique("method") if m not in ("GPC-GOLD", "CGPMA-C", "CCGPMA-C")]
our_auc = measured_averages(class_runs, "auc")
in_print = bool(
    best_of(average_6, ["CCGPMA-C"]) > best_of(average_6, ["CGPMA-C"])
    and average_6["CGPMA-C"].min() > best_of(average_6, rivals)
)
simple = [m for m in ("GPC-MV", "MA-LFC-C", "MA-DGRL") if m in our_auc]
again = bool(min(our_auc["CCGPMA-C"], our_auc["CGPMA-C"]) > our_auc[simple].max())
chapter.claim(
    "giraldo-l-c5",
    holds=bool(in_print and (again or not settings.decides)),
    measured=f"printed averages: CCGPMA-C {best_of(average_6, ['CCGPMA-C']):.2f}, CGPMA-C {best_of(average_6, ['CGPMA-C']):.2f}, best other "
    f"{best_of(average_6, rivals):.2f}; re-run on {', '.join(settings.class_sets)}: "
    + ", ".join(f"{m} {100 * a:.2f}" for m, a in our_auc.sort_values(ascending=False).items()),
    note=f"{settings.repetitions} repetition(s); the rule asks for the six smallest sets ({', '.join(SMALLEST)}) and five"
    + ("." if settings.decides else ", so that the printed numbers decide here."),
)

# %%
gpc, gpcv, kaar = (average_6[m].max() for m in ("MA-GPC", "MA-GPCV", "KAAR"))
vote = average_6["GPC-MV"]
chapter.claim(
    "giraldo-l-c7",
    holds=bool(max(gpc, gpcv, kaar) < vote.max()),
    measured=f"printed averages: MA-GPC {gpc:.2f}, MA-GPCV {gpcv:.2f}, KAAR {kaar:.2f} against GPC-MV {vote.max():.2f} / {vote.min():.2f}",
    note="It holds for MA-GPCV and KAAR.",
)
dgrl = average_6["MA-DGRL"].max()
nonlinear = {m: average_6[m].max() for m in rivals if m not in ("MA-DGRL", "MA-LFC-C", "GPC-MV")}
chapter.claim(
    "giraldo-l-c8",
    holds=bool(dgrl > max(nonlinear.values())),
    measured=f"printed averages: MA-DGRL {dgrl:.2f}; above it: "
    + ", ".join(f"{m} {a:.2f}" for m, a in nonlinear.items() if a > dgrl),
)

# %%
printed_7, printed_8 = published("table-7"), published("table-8")
row_gaps = {}
for label, table in (("VI", printed_6), ("VII", printed_7), ("VIII", printed_8)):
    cells = table[table["data"] != "average"].assign(inducing=table["inducing"].fillna(0).astype(int))
    means = cells.groupby(["method", "inducing"])["mean"].mean()
    row_gaps[label] = (means - averages(table)).abs()
wrong = {
    label: gap[gap > (0.01 if label == "VI" else 1e-4) + 1e-9].index.get_level_values(0).tolist()
    for label, gap in row_gaps.items()
}
chapter.claim(
    "giraldo-l-c6",
    holds=bool(not any(wrong.values())),
    measured="largest distance of a row's mean to the printed average: "
    + ", ".join(f"{gap.max():.{3 if label == 'VI' else 5}f} (Table {label})" for label, gap in row_gaps.items())
    + (f"; too far: {wrong}" if any(wrong.values()) else ""),
)

# %% [markdown]
# ## Real annotators (§IV-A)
#
# Paid workers told the genres of songs, a few labels a song. Some of them know music and some do not, which the model has to find out by
# itself; nothing is started from votes. Voices were judged by physicians and are not public; the column *voice* is a stand-in.

# %%
music = loaded["music"]
on_music = {m: fitted(m, music.train, **settings.music) for m in settings.music_classes}
music_scores = pd.DataFrame({m: scores(f, music.train, music.test) for m, f in on_music.items()}).T.astype(float)
voice = loaded["voice"]
voice_runs = sweep(
    annotator_run,
    [
        dict(data=voice.name, source=source_of(voice), method=m, repetition=r, loading=settings.loading, **settings.runs)
        for m in settings.voice_methods for r in range(settings.repetitions)
    ],
    name="annotators", workers=settings.workers, progress=False,
)  # fmt: skip
voice_auc = voice_runs.groupby("method")["auc"].mean()


def real_rows():
    for m in dict.fromkeys((*settings.music_classes, *settings.voice_methods)):
        music_row = music_scores.loc[m] if m in music_scores.index else None
        yield {
            "method": m,
            "numbers": "measured",
            "music": "–" if music_row is None else f"{music_row['auc']:.4f}",
            "music, accuracy": "–" if music_row is None else f"{music_row['accuracy']:.4f}",
            "voice stand-in": f"{voice_auc[m]:.4f}" if m in voice_auc else "–",
            **{f"voice {s}": "–" for s in "GRB"},
        }
    for (m, M), part in printed_7.assign(inducing=printed_7["inducing"].fillna(0)).groupby(
        ["method", "inducing"], sort=False
    ):
        own = part.set_index("data")["mean"]
        yield {
            "method": m,
            "numbers": ("printed" if m in IMPLEMENTED else "quoted") + (f", M = {M:.0f}" if M else ""),
            "music": f"{own['music']:.4f}",
            "music, accuracy": "–",
            "voice stand-in": "–",
            **{f"voice {s}": f"{own[f'voice {s}']:.4f}" for s in "GRB"},
        }


chapter.table(
    "giraldo-l-table-7",
    pd.DataFrame(list(real_rows())),
    data=[voice, music],
    partial="Voice is not available: its columns are printed numbers, and a stand-in is measured",
)

# %%
average_7 = averages(printed_7)
others_7 = [m for m in average_7.index.unique("method") if m not in ("GPC-GOLD", "CCGPMA-C")]
ahead = music_scores["auc"]["CCGPMA-C"] >= music_scores["auc"]["GPC-MV"]
near_gold = music_scores["auc"]["CCGPMA-C"] >= music_scores["auc"]["GPC-GOLD"] - 0.03
chapter.claim(
    "giraldo-l-c9",
    holds=bool(best_of(average_7, ["CCGPMA-C"]) > best_of(average_7, others_7) and ahead and near_gold),
    measured="Music, AUC (accuracy): "
    + ", ".join(
        f"{m} {row['auc']:.4f} ({row['accuracy']:.3f})"
        for m, row in music_scores.sort_values("auc", ascending=False).iterrows()
    )
    + f"; printed average of CCGPMA-C {best_of(average_7, ['CCGPMA-C']):.4f}, of the best other {best_of(average_7, others_7):.4f}",
    note="Only Music is re-run; the printed Voice columns cannot be checked.",
    data=music,
)

# %% [markdown]
# The dashboard of the seven workers. Inputs are 124 features, so the first principal component is the axis; the shares of right labels in
# the last panel were never shown to the model.

# %% tags=["hide-input"]
heard = music.train.annotated
with chapter.figure(
    "giraldo-finding-dashboard-music",
    nrows=2,
    ncols=2,
    figsize=(10.4, 7.6),
    data=music,
    alt="Four panels about seven workers: four have high reliability along the first principal component, three have low; the four agree "
    "with each other; bars show that about three quarters of their labels are right and few of the others'.",
) as axes:
    annotator_dashboard(on_music["CCGPMA-C"].model, heard, music.train.Y[heard[0].rows], axes=axes)

# %%
worker_share = np.array(
    [np.mean(heard[0].Y[o, r] == music.train.Y[heard[0].rows[o], 0]) for r, o in enumerate(heard[0].observed.T)]
)
worker_trust = on_music["CCGPMA-C"].reliability(heard.inputs(0))[0].mean(0)
switched = on_music["CCGPMA-C"].reliability(heard.inputs(0))[0].std(0)
order_found = float(pd.Series(worker_trust).corr(pd.Series(worker_share), method="spearman"))
split = bool(worker_trust[worker_share > 0.5].min() > worker_trust[worker_share < 0.5].max())
chapter.claim(
    "giraldo-l-f1",
    holds=split,
    measured="share of right labels / mean reliability: "
    + ", ".join(f"{s:.2f} / {t:.2f}" for s, t in zip(worker_share, worker_trust, strict=True))
    + f"; rank correlation {order_found:.2f}",
    data=music,
)
chapter.claim(
    "giraldo-l-f6",
    holds=bool(switched.max() <= 0.05),
    measured=f"largest standard deviation of a worker's reliability over the songs: {switched.max():.3f}; mean reliabilities between "
    f"{worker_trust.min():.3f} and {worker_trust.max():.3f}",
    data=music,
)
pd.DataFrame({"share of right labels": worker_share, "mean reliability": worker_trust}, index=pd.RangeIndex(1, len(worker_share) + 1, name="worker")).round(3)  # fmt: skip

# %% [markdown]
# ### Are the probabilities calibrated?
#
# A pseudo-likelihood may rank well and still be over- or under-confident. Test songs are grouped by the probability of the predicted genre;
# in a calibrated model the share of right predictions in a group is that probability.


# %%
def calibration(found, test, groups=8):
    """Mean confidence and accuracy of groups of as many rows, and their mean distance (expected calibration error)."""
    p = found.gold(test.X)[0]
    confidence, hit = p.max(1), p.argmax(1) == test.Y[:, 0]
    parts = np.array_split(np.argsort(confidence), groups)
    points = np.array([(confidence[g].mean(), hit[g].mean()) for g in parts])
    return points, float(np.average(np.abs(points[:, 0] - points[:, 1]), weights=[len(g) for g in parts]))


calibrated = {m: calibration(on_music[m], music.test) for m in ("GPC-GOLD", "GPC-MV", "CCGPMA-C")}

# %% tags=["hide-input"]
with chapter.figure(
    "giraldo-finding-calibration",
    figsize=(6.2, 4.4),
    data=music,
    alt="Share of right predictions against predicted probability for gold, majority vote and CCGPMA-C, with the diagonal.",
) as ax:
    ax.plot([0, 1], [0, 1], color="black", lw=0.9, ls=":", label="calibrated")
    for (method, (points, error)), colour, marker in zip(
        calibrated.items(), ("green", "orange", "blue"), "sDo", strict=True
    ):
        ax.plot(*points.T, marker=marker, color=COLOURS[colour], label=f"{method}: mean gap {error:.3f}")
    ax.set(
        xlabel="predicted probability of the predicted genre", ylabel="share of right predictions", xlim=(0, 1), ylim=(0, 1.03),
        title="Music, 300 test songs in eight groups",
    )  # fmt: skip
    ax.legend(loc="lower right")

# %%
gap_of = {m: float((points[:, 1] - points[:, 0]).mean()) for m, (points, _) in calibrated.items()}
chapter.claim(
    "giraldo-l-f2",
    holds=bool(0 < gap_of["CCGPMA-C"] <= gap_of["GPC-GOLD"]),
    measured="accuracy minus confidence, mean over the groups: "
    + ", ".join(f"{m} {g:+.3f}" for m, g in gap_of.items())
    + "; NLPD: "
    + ", ".join(f"{m} {music_scores['nlpd'][m]:.3f}" for m in gap_of),
    data=music,
)

# %% [markdown]
# ## Synthetic values (§IV-B)
#
# The truth is $\sin 2\pi x \sin 6\pi x$ at 100 points, and each of five annotators adds noise whose variance depends on $x$.

# %%
curve = chapter.load("annotators-synth-reg", **settings.value_size)
on_curve = {m: fitted(m, curve.train, **settings.toy) for m in FEW_VALUES}
curve_scores = pd.DataFrame({m: scores(f, curve.train, curve.test) for m, f in on_curve.items()}).T
printed_r2 = published("fig-3").set_index("method")["r2"]
curve_shown = np.linspace(0, len(curve.test) - 1, min(len(curve.test), 300)).round().astype(int)
x_curve = curve.test.X[curve_shown]

# %% tags=["hide-input"]
with chapter.figure(
    "giraldo-l-fig-3",
    nrows=2,
    ncols=3,
    figsize=(10.2, 5.4),
    sharex=True,
    sharey=True,
    data=curve,
    partial="MA-DL is not implemented; its printed values are in the table below",
    alt="Six panels with predictions and bands over the true curve: the chained models and MA-GPR follow it, the average is noisier, the "
    "linear model is flat.",
) as axes:
    averaged = np.nanmean(curve.train.per_row["annotations"], 1)
    for ax, method in zip(axes.flat, FEW_VALUES, strict=True):
        mean, sd = on_curve[method].gold(x_curve)
        ax.plot(
            curve.train.X, averaged, ".", color=COLOURS["grey"], ms=3, alpha=0.5, label="average of the annotations"
        )
        bands(ax, x_curve, mean, sd, color=COLOURS["blue"], label="mean", band_label="mean ± 2 sd")
        ax.plot(x_curve, curve.test.Y[curve_shown], color="black", ls="--", lw=1.2, label="truth")
        ax.set(
            title=f"{method}\nR² {curve_scores['r2'][method]:.4f} (printed {printed_r2[method]:.4f})".replace(
                "-0", "−0"
            ),
            ylim=(-2.2, 2.2),
            xlim=(0, 1),
        )
    for ax in axes[1]:
        ax.set_xlabel("x")
    for ax in axes[:, 0]:
        ax.set_ylabel("y")
    axes[0, 0].figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)

# %%
pd.DataFrame({"measured R²": curve_scores["r2"].astype(float), "printed R²": printed_r2}).reindex(
    printed_r2.index
).round(4)

# %%
r2 = curve_scores["r2"].astype(float)
chapter.claim(
    "giraldo-l-c3",
    holds=bool(
        r2["CCGPMA-R"] >= r2["CGPMA-R"] - 0.02
        and min(r2["CCGPMA-R"], r2["CGPMA-R"]) > r2["GPR-Av"]
        and r2["MA-LFCR"] < 0.2
    ),
    measured="R²: "
    + ", ".join(f"{m} {v:.4f} (printed {printed_r2[m]:.4f})" for m, v in r2.sort_values(ascending=False).items()),
)

# %% tags=["hide-input"]
true_variance = curve.test.per_row["variance"]
with_variance = {m: on_curve[m] for m in ("MA-LFCR", "MA-GPR", "CGPMA-R", "CCGPMA-R")}
found_variance = {m: recovered(f.reliability(curve.test.X)[0], curve.test) for m, f in with_variance.items()}
with chapter.figure(
    "giraldo-l-fig-4",
    nrows=R,
    ncols=5,
    figsize=(10.4, 9.6),
    sharex=True,
    sharey="row",
    data=curve,
    alt="Rows of panels for five annotators: the true noise variance, constant estimates by MA-LFCR and MA-GPR, and estimates by CGPMA-R "
    "and CCGPMA-R that vary with the input and match the truth in part.",
) as axes:
    for r in range(R):
        for ax in axes[r]:
            ax.plot(x_curve, true_variance[curve_shown, r], color="black", ls="--", lw=1.2, label="truth")
        for ax, (method, found) in zip(axes[r, 1:], with_variance.items(), strict=True):
            mean, sd = found.reliability(x_curve)
            bands(
                ax, x_curve, mean[:, r], lower=np.maximum(mean[:, r] - 2 * sd[:, r], 0), upper=mean[:, r] + 2 * sd[:, r],
                color=COLOURS["blue"], label="estimate", band_label="± 2 sd",
            )  # fmt: skip
            ax.set_title(
                f"{method if r == 0 else ''}\nR² {found_variance[method][r]:.2f}".replace(" -", " −").strip(),
                fontsize=10.5,
            )
        top = max(true_variance[:, r].max(), max(f.reliability(x_curve)[0][:, r].max() for f in with_variance.values()))
        axes[r, 0].set(ylabel=f"annotator {r + 1}", ylim=(0, 1.25 * min(top, 3 * true_variance[:, r].max())))
    axes[0, 0].set_title("truth", fontsize=10.5)
    for ax in axes[-1]:
        ax.set(xlabel="x", xlim=(0, 1), xticks=(0, 0.5, 1))
    axes[0, 0].figure.supylabel("variance of the noise")
    axes[0, 0].figure.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=3)

# %%
variance_means = {m: float(v.mean()) for m, v in found_variance.items()}
hardest = int(np.argmin(found_variance["CCGPMA-R"])) + 1
chapter.claim(
    "giraldo-l-c4",
    holds=bool(
        hardest == 4
        and min(variance_means["CGPMA-R"], variance_means["CCGPMA-R"])
        > max(variance_means["MA-GPR"], variance_means["MA-LFCR"])
    ),
    measured="R² of the variances by CCGPMA-R, annotators 1 to 5: "
    + ", ".join(f"{v:.2f}" for v in found_variance["CCGPMA-R"])
    + f" (hardest: {hardest}); means: "
    + ", ".join(f"{m} {v:.2f}" for m, v in variance_means.items()),
    note="Largest over smallest true variance, annotators 1 to 5: "
    + ", ".join(f"{v.max() / v.min():.2g}" for v in true_variance.T)
    + ". R² divides by the spread of the truth: where it is nearly constant, any error of the level makes it very negative.",
)

# %% [markdown]
# ## Six tables of values (§IV-B)

# %%
value_runs = swept(settings.value_sets, value_loaded, settings.value_methods)
chapter.table(
    "giraldo-l-table-8",
    beside_printed(value_runs, printed_8, "r2", VALUE_SETS, settings.value_methods, 4),
    data=[value_loaded[s] for s in settings.value_sets],
    partial="; ".join(
        filter(
            None,
            [
                left_out(VALUE_SETS, settings.value_sets),
                f"{settings.repetitions} of 15 repetitions" if settings.repetitions < 15 else "",
                sampled_down,
            ],
        )
    ),
)

# %%
average_8 = averages(printed_8)
rivals_8 = [m for m in average_8.index.unique("method") if m not in ("GPR-GOLD", "CCGPMA-R")]
our_r2 = measured_averages(value_runs, "r2")
plain = [m for m in ("GPR-Av", "MA-GPR", "MA-LFCR") if m in our_r2]
chapter.claim(
    "giraldo-l-c10",
    holds=bool(
        best_of(average_8, ["CCGPMA-R"]) > best_of(average_8, rivals_8)
        and (our_r2["CCGPMA-R"] >= our_r2[plain].max() or not settings.decides)
    ),
    measured=f"printed averages: CCGPMA-R {best_of(average_8, ['CCGPMA-R']):.4f}, best other {best_of(average_8, rivals_8):.4f}; re-run on "
    f"{', '.join(settings.value_sets)}: "
    + ", ".join(f"{m} {a:.4f}" for m, a in our_r2.sort_values(ascending=False).items()),
    note=f"{settings.repetitions} repetition(s); the rule asks for autompg, concrete, boston and yacht, and five"
    + ("." if settings.decides else ", so that the printed numbers decide here.")
    + " MA-GPR is an exact GP here; the others, gold included, have inducing points.",
)

# %% [markdown]
# Three remarks of the paper on this table. *On CT the linear model is best, because the data are close to linear:* the printed MA-DL-S is
# slightly better. *On Bike deep models beat the gold GP, and a periodic kernel closes the gap:* so it is printed. *Input-dependent
# reliability matters most, correlations add a little:* on the averages for classes that is so, on those for values it is the other way round.

# %%
in_text = published("text").set_index("what")["value"]
ct = printed_8[printed_8["data"] == "ctslice"].groupby("method")["mean"].max()
better = [m for m in ct.index if ct[m] > ct["MA-LFCR"] and m not in ("GPR-GOLD", "CGPMA-R", "CCGPMA-R")]


def linear_r2(data):
    """R2 of linear regression on the true values, 70 / 30."""
    train, test = data.split(test=0.3, seed=0)
    D, D_test = (np.column_stack([np.ones(len(part)), part.X]) for part in (train, test))
    return metrics.r2(test.Y, D_test @ np.linalg.lstsq(D, train.Y, rcond=None)[0])


linear = (
    f"; linear regression on {value_loaded['ctslice'].name}: {linear_r2(value_loaded['ctslice']):.4f}"
    if settings.CT
    else ""
)
chapter.claim(
    "giraldo-l-c11",
    holds=bool(not better),
    measured=f"printed R² on CT: MA-LFCR {ct['MA-LFCR']:.4f}, above it {', '.join(f'{m} {ct[m]:.4f}' for m in better)}{linear}",
    note=f"The statement about linearity ({in_text['R2 on CT, linear regression on the true values']} by linear regression on the true values) is not touched by this.",
    data=value_loaded["ctslice"] if settings.CT else None,
)

# %%
bike = printed_8[printed_8["data"] == "bike"].groupby("method")["mean"]
deep, gold_bike, periodic_printed = (
    [bike.max()[m] for m in ("MA-DL-B", "MA-DL-S", "MA-DL-B+S")],
    bike.max()["GPR-GOLD"],
    in_text["R2 on Bike, GPR-GOLD with a product of periodic kernels"],
)


def periodic_gain(rows, steps, inducing):
    """R2 of a gold GP with a product of periodic kernels, one an input, minus R2 with the isotropic RBF kernel."""
    import gpflow

    from mogp.inducing import given_points
    from mogp.models import SparseMOGP
    from mogp.priors import Independent

    data = value_loaded["bike"]
    chosen = np.random.default_rng(0).permutation(len(data))[:rows]
    train, test = data.take(np.sort(chosen)).split(test=0.3, seed=0)
    P = data.X.shape[1]
    kernels = {
        "RBF": gpflow.kernels.SquaredExponential(lengthscales=np.sqrt(P)),
        "periodic": gpflow.kernels.Periodic(
            gpflow.kernels.SquaredExponential(lengthscales=np.full(P, 1.0)), period=np.full(P, 6.0)
        ),
    }
    found = {}
    for name, kernel in kernels.items():
        Z = kmeans_points(train.data, inducing).Z.numpy()
        model = SparseMOGP(
            Independent(kernel, functions=1),
            given_points(Z.reshape(-1, P), None),
            likelihoods.Gaussian(0.3),
            names=train.data.names,
        )
        fit(model, train.data, steps=steps, batch_size=200, optimizer=NaturalAdam(0.1, 0.02), progress=False)
        found[name] = metrics.r2(test.Y, np.asarray(model.predict_f(test.X, 0).mean))
    return found["periodic"] - found["RBF"]


gain = (
    periodic_gain(settings.periodic, settings.music["steps"], settings.runs["inducing"]) if settings.periodic else None
)
chapter.claim(
    "giraldo-l-c12",
    holds=bool(min(deep) > gold_bike and periodic_printed > max(deep) and (not settings.CT or 0.01 <= gain <= 0.1)),
    measured=f"printed R² on Bike: MA-DL {min(deep):.4f} to {max(deep):.4f}, GPR-GOLD {gold_bike:.4f}, with the periodic kernel "
    f"{periodic_printed:.4f}"
    + ("" if gain is None else f"; gain of the periodic kernel on {settings.periodic} rows: {gain:+.4f}"),
    data=value_loaded["bike"] if settings.periodic else None,
)

# %%
CONSTANT = ("MA-LFC-C", "MA-DGRL", "MA-GPC", "MA-GPCV", "MA-DL-MW", "MA-DL-VW", "MA-DL-VW+B")
steps_printed = (
    best_of(average_6, ["CGPMA-C"]) - best_of(average_6, CONSTANT),
    best_of(average_6, ["CCGPMA-C"]) - best_of(average_6, ["CGPMA-C"]),
)
steps_values = (
    best_of(average_8, ["CGPMA-R"]) - best_of(average_8, ["GPR-Av", "MA-LFCR", "MA-GPR"]),
    best_of(average_8, ["CCGPMA-R"]) - best_of(average_8, ["CGPMA-R"]),
)
constant = [m for m in CONSTANT if m in our_auc]
steps_ours = (100 * (our_auc["CGPMA-C"] - our_auc[constant].max()), 100 * (our_auc["CCGPMA-C"] - our_auc["CGPMA-C"]))
chapter.claim(
    "giraldo-l-c14",
    holds=bool(steps_printed[0] > steps_printed[1] > 0 and (steps_ours[0] > steps_ours[1] or not settings.decides)),
    measured=f"classes, printed averages: +{steps_printed[0]:.2f} from the best constant reliability to CGPMA-C, +{steps_printed[1]:.2f} on to "
    f"CCGPMA-C; values, printed: {steps_values[0]:+.4f} and {steps_values[1]:+.4f}; classes, re-run: {steps_ours[0]:+.2f} and "
    f"{steps_ours[1]:+.2f}",
    note="For values the second step is the larger one, so the statement fits classes only. And the first step compares linear with "
    "non-linear classifiers as well.",
    data=[loaded[s] for s in settings.class_sets],
)

# %% [markdown]
# ## Genres as numbers (§IV-B)
#
# The paper also fits its model for values to the numbers 0 to 9 of the genres ("least-squares classification"). The numbers are in
# alphabetical order of the genres, so there is little to fit; it is a test of robustness rather than of music.

# %%
genres = value_loaded["music"]
on_genres = {m: fitted(m, genres.train, **settings.music) for m in settings.music_values}
genre_scores = pd.DataFrame({m: scores(f, genres.train, genres.test) for m, f in on_genres.items()}).T.astype(float)
printed_9 = published("table-9")
chapter.table(
    "giraldo-l-table-9",
    pd.DataFrame(
        [
            *(
                {"method": m, "numbers": "measured", "R² on Music": f"{row['r2']:.4f}", "on training songs": f"{row['train_r2']:.4f}"}
                for m, row in genre_scores.iterrows()
            ),
            *(
                {
                    "method": row.method,
                    "numbers": ("printed" if row.method in IMPLEMENTED else "quoted") + ("" if np.isnan(row.inducing) else f", M = {row.inducing:.0f}"),
                    "R² on Music": f"{row.mean:.4f}",
                    "on training songs": f"{in_text['R2 on Music, MA-GPR on training songs']:.4f}" if row.method == "MA-GPR" else "–",
                }
                for row in printed_9.itertuples()
            ),
        ]
    ),
    data=genres,
)  # fmt: skip

# %%
genre_r2 = genre_scores["r2"]
chapter.claim(
    "giraldo-l-c13",
    holds=bool(genre_r2["GPR-Av"] <= genre_r2["CCGPMA-R"] <= genre_r2["GPR-GOLD"]),
    measured="R² on Music: "
    + ", ".join(
        f"{m} {v:.4f} (training {genre_scores['train_r2'][m]:.4f})"
        for m, v in genre_r2.sort_values(ascending=False).items()
    ),
    note="The rule is about average, CCGPMA-R and gold; whether CCGPMA-R is best and whether MA-GPR over-fits is to be read from the numbers.",
    data=genres,
)

# %% [markdown]
# ## What we found that the document does not say
#
# ### Amplitude or correlation?
#
# The published CGPMA fixes $\mathbf W = \mathbf I$: independent functions *of unit variance*. CCGPMA's weights are free, so it differs in two
# ways, and the tables call the sum "correlations". Independent functions with learned variances separate the two. On the synthetic classes
# the objective has the same likelihood in all three, and test scores decide anyway:

# %%
STAGES = ("CGPMA-C", "CGPMA-C + amplitudes", "CCGPMA-C")
stage_table = pd.DataFrame(
    {
        "objective (mean of the last tenth)": [
            on_toy[m].elbo[-max(1, len(on_toy[m].elbo) // 10) :].mean() for m in STAGES
        ],
        "test NLPD of the truth": [toy_scores["nlpd"][m] for m in STAGES],
        "AUC": [toy_scores["auc"][m] for m in STAGES],
        "reliability on the right side": [np.mean(toy_scores["recovered"][m]) for m in STAGES],
    },
    index=pd.Index(STAGES, name="model"),
).astype(float)
chapter.table("giraldo-finding-amplitude", stage_table.round(4), data=toy)
nlpds = stage_table["test NLPD of the truth"]
part_of_gain = (nlpds["CGPMA-C"] - nlpds["CGPMA-C + amplitudes"]) / (nlpds["CGPMA-C"] - nlpds["CCGPMA-C"])
chapter.claim(
    "giraldo-l-f3",
    holds=bool(nlpds["CCGPMA-C"] < nlpds["CGPMA-C"] and part_of_gain >= 0.5),
    measured=f"test NLPD {nlpds['CGPMA-C']:.4f} with unit variances, {nlpds['CGPMA-C + amplitudes']:.4f} with learned ones, {nlpds['CCGPMA-C']:.4f} "
    f"with an LMC: amplitudes are {part_of_gain:.0%} of the gain",
)

# %% [markdown]
# ### A liar is taken for a guesser
#
# An annotator who always names the *other* of two classes knows the truth as well as an expert. In this likelihood a label never counts
# against the class it names: $\partial\log p(y) / \partial\zeta_y = \lambda/\zeta_y \ge 0$ for every reliability. The best the model
# can do with a liar is $\lambda \to 0$, that is, to ignore him. A confusion matrix can turn him round: three annotators, two of them right
# in 70 % of 500 labels and one in 5 %:

# %%
rng = np.random.default_rng(seed)
truth_2 = rng.integers(0, 2, 500)
skill = np.array([0.7, 0.7, 0.05])
said = np.where(rng.uniform(size=(500, 3)) < skill, truth_2[:, None], 1 - truth_2[:, None]).astype(float)
three = MultiOutputData.from_list([(np.zeros((500, 1)), said)], names=["class"])
ds = DawidSkene(2).fit(three)
ds_right, vote_right = (
    float(np.mean(labels[0].Y[:, 0] == truth_2)) for labels in (ds.labels(three), majority_vote(three, 2))
)
grid = np.linspace(0.01, 0.99, 99)
towards = [t * np.log(z) - (t * np.log(1 - z)) for z in grid[grid > 0.5] for t in np.linspace(0, 1, 21)]
chapter.table(
    "giraldo-finding-liars",
    pd.DataFrame(
        [
            {"labels from": "majority vote", "right": f"{vote_right:.3f}", "annotator 3 is taken to be": "as good as any"},
            {"labels from": "Dawid and Skene", "right": f"{ds_right:.3f}", "annotator 3 is taken to be": f"right with probability {np.mean(np.diag(ds.confusion_[2])):.2f}"},
            {"labels from": "without annotator 3, at best", "right": f"{skill[0]:.3f}", "annotator 3 is taken to be": "guessing (λ = 0)"},
        ]
    ),
)  # fmt: skip
chapter.claim(
    "giraldo-l-f4",
    holds=bool(min(towards) >= 0 and ds_right >= 0.9 and vote_right <= 0.7),
    measured=f"lowest log ratio of the model between the named and the other class, over ζ > ½ and λ in [0, 1]: {min(towards):.2f}; right labels: "
    f"{ds_right:.3f} by Dawid and Skene, {vote_right:.3f} by majority",
)

# %% [markdown]
# On the tables with two classes the simulated annotators lie wherever they are not reliable, and the last one does so in most places. How
# good are the labels that a vote and Dawid and Skene infer there, over all rows? One confusion matrix for all inputs cannot describe an
# annotator who is an expert here and a liar there, so it may be better or worse than the vote:

# %%
inferred = []
for name in settings.class_sets:
    whole = annotated(name, source_of(loaded[name]), **settings.loading)
    C, own = len(whole.classes[whole.outputs[0]]), whole.annotated
    inferred.append(
        {
            "data": name,
            "classes": C,
            **{f"annotator {r + 1}": np.mean(whole.per_row["annotations"][:, r] == whole.Y[:, 0]) for r in range(R)},
            "majority vote": np.mean(majority_vote(own, C)[0].Y == whole.Y),
            "Dawid and Skene": np.mean(DawidSkene(C).fit(own).labels(own)[0].Y == whole.Y),
        }
    )
pd.DataFrame(inferred).set_index("data").round(2)

# %% [markdown]
# ### Fewer annotations a row
#
# The simulation has every annotator label every point. With real ones a row gets two or three labels. The same synthetic classes with
# labels taken away at random:

# %%
few = [
    {
        "labels a row": n, "method": m,
        **scores(fitted(m, annotated("annotators-synth-class", told=n, **settings.toy_size).train, **settings.toy), toy.train, toy.test),
    }
    for n in settings.told for m in ("GPC-MV", "CCGPMA-C")
]  # fmt: skip
few += [{"labels a row": R, "method": m, **toy_scores.loc[m]} for m in ("GPC-MV", "CCGPMA-C")]
by_told = pd.DataFrame(few).assign(recovered=lambda t: [np.mean(r) for r in t["recovered"]])
by_told = by_told.astype({"auc": float, "accuracy": float}).pivot(index="labels a row", columns="method", values=["auc", "accuracy", "recovered"])  # fmt: skip
by_told = by_told.drop(columns=("recovered", "GPC-MV"))
by_told.columns = [
    f"{m}, {dict(auc='AUC', accuracy='accuracy', recovered='reliability on the right side')[s]}"
    for s, m in by_told.columns
]
chapter.table("giraldo-finding-told", by_told.round(4).reset_index(), data=toy)
one = by_told.loc[1]
chapter.claim(
    "giraldo-l-f5",
    holds=bool(one["CCGPMA-C, accuracy"] >= by_told.loc[R, "GPC-MV, accuracy"]),
    measured=f"accuracy of CCGPMA-C with one label a row {one['CCGPMA-C, accuracy']:.3f}, of majority vote with one {one['GPC-MV, accuracy']:.3f} and "
    f"with five {by_told.loc[R, 'GPC-MV, accuracy']:.3f}",
)

# %% [markdown]
# ### The missing mass of a fitted model
#
# How much of the objective is mass that the pseudo-likelihood leaves out? Under the fitted model on Music, the mean over the annotations of
# $\log\sum_k \zeta_k^{\lambda}K^{\lambda - 1}$ at the posterior means. Where reliabilities end near zero or one, hardly anything is missing: the
# model has then turned itself into the step function of the paper's text.

# %%
mu = np.asarray(on_music["CCGPMA-C"].model.predict_f(heard.inputs(0)).mean)
zeta, lam = special.softmax(mu[:, :10], axis=1), special.expit(mu[:, 10:])
lost = -np.log(np.array([mass(zeta, lam[:, r]) for r in range(lam.shape[1])]).T)[heard[0].observed]
elbo = on_music["CCGPMA-C"].elbo
print(
    f"{lost.mean():.3f} nats an annotation, {lost.sum():.0f} nats in all; the objective is "
    f"{elbo[-max(1, len(elbo) // 10) :].mean():.0f}, guessing all labels would give {-np.log(10) * heard[0].observed.sum():.0f}"
)

# %% [markdown]
# ### In short
#
# - The class model is a pseudo-likelihood. Up to $\log K$ nats an annotation can be missing, so that bounds say nothing across likelihoods. A
#   trained model avoids it by reliabilities near zero or one, and the calibration on Music does not suffer.
# - CCGPMA differs from the published CGPMA in amplitudes as well as in correlations. The table above tells the two apart.
# - Labels never count against the class they name. Annotators who lie are switched off at best, where confusion matrices would use them; but
#   confusion matrices do not depend on the input.
# - Wrong labels of two classes are all alike. Where most simulated annotators lie, they agree with each other perfectly, and no model without
#   true labels can tell that from knowledge: a good AUC may then come with a class named almost everywhere, and on small tables the truth
#   may come out reversed.
# - The simulated annotators are experts or liars along one coordinate, with the same weights for all tables: data made for a reliability that
#   depends on the input. The workers of Music are switched on or off as a whole.
#
# ## Exercises

# %% [markdown] tags=["exercise"]
# **Exercise 1: find the lying annotator.** Four annotators label 300 points of two classes on $[0, 1]$, each right in 85 % of the cases. One of
# them lies in one region: there he names the other class. Who, and where?

# %%
rng = np.random.default_rng(seed + 7)
x_lie = np.sort(rng.uniform(size=300))
class_lie = (np.sin(4 * np.pi * x_lie) > 0).astype(int)
label_lie = np.where(rng.uniform(size=(300, 4)) < 0.85, class_lie[:, None], 1 - class_lie[:, None])
liar, region = int(rng.integers(4)), np.sort(rng.uniform(0.1, 0.9, 2))
region[1] = max(region[1], region[0] + 0.25)
inside = (x_lie > region[0]) & (x_lie < region[1])
label_lie[inside, liar] = 1 - class_lie[inside]
suspects = MultiOutputData.from_list([(x_lie[:, None], label_lie.astype(float))], names=["class"])

# %% tags=["solution"]
detective = ccgpma(suspects, 2, inducing=10, seed=seed, scaling=None, start="plain")
fit(detective, suspects, steps=settings.lie_steps, optimizer=NaturalAdam(0.1, 0.02), progress=False)
where = np.linspace(0, 1, 200)
trust = np.asarray(detective.reliability(where[:, None]).mean)
accused = int(np.argmin(trust.min(0)))
low = where[trust[:, accused] < 0.5]
print(f"accused: annotator {accused + 1}" + (f", between {low.min():.2f} and {low.max():.2f}" if len(low) else ""))
print(f"truth:   annotator {liar + 1}, between {region[0]:.2f} and {region[1]:.2f}")
fig, ax = plt.subplots(figsize=(7.2, 3.0))
for r, colour in enumerate(("blue", "orange", "green", "red")):
    ax.plot(where, trust[:, r], color=COLOURS[colour], label=f"{r + 1}")
ax.axvspan(*region, color=COLOURS["grey"], alpha=0.15, lw=0, label="lie")
ax.axhline(0.5, color="black", lw=0.8, ls=":")
ax.set(xlabel="x", ylabel="reliability λ", ylim=(0, 1), xlim=(0, 1))
ax.legend(title="annotator", loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown] tags=["solution"]
# The reliability of the liar falls where he lies. It says nothing about lying as such: an annotator who guesses there would look the same. To
# tell them apart, look at his labels where he is not trusted: a liar is right in far fewer than half of the cases the others decide.

# %% [markdown] tags=["exercise"]
# **Exercise 2: whom to ask next?** You can buy one label at each of $x = 0.1, 0.3, 0.5, 0.7, 0.9$ of the synthetic classes. Whom do you ask, and
# how much better is your choice, in truth, than asking the annotator who is best on average?

# %% tags=["solution"]
asked = np.array([[0.1], [0.3], [0.5], [0.7], [0.9]])
chosen, lead = most_trusted(on_toy["CCGPMA-C"].reliability(asked)[0], labels=True)
nearest = np.array([np.argmin(np.abs(toy.test.X[:, 0] - x)) for x in asked[:, 0]])
overall = int(np.argmax(on_toy["CCGPMA-C"].reliability(toy.test.X)[0].mean(0)))
pd.DataFrame(
    {
        "x": asked[:, 0],
        "ask annotator": chosen + 1,
        "lead over the next": lead.round(3),
        "his true reliability": true_trust[nearest, chosen].round(3),
        f"that of annotator {overall + 1}, best on average": true_trust[nearest, overall].round(3),
    }
)

# %% [markdown] tags=["exercise"]
# **Exercise 3: a normalised model.** The mixture $\lambda\zeta_y + (1 - \lambda)/K$ is what MA-DGRL uses, and it sums to one. Compare it with
# $\zeta_y^\lambda K^{\lambda - 1}$ for $K = 3$ and $\lambda = 0.5$ as a function of $\zeta_y$. Which of the two forgives a wrong label?

# %% tags=["solution"]
z = np.geomspace(1e-4, 1, 200)
fig, ax = plt.subplots(figsize=(6.6, 3.0))
ax.plot(z, np.log(0.5 * z + 0.5 / 3), color=COLOURS["blue"], label="mixture")
ax.plot(z, 0.5 * np.log(z) - 0.5 * np.log(3), color=COLOURS["red"], ls="--", label="paper L")
ax.set(xscale="log", xlabel="probability ζ of the label", ylabel="log p (nats)")
ax.legend()
plt.show()

# %% [markdown] tags=["solution"]
# The mixture: its log is bounded below by $\log((1 - \lambda)/K)$, while the other falls without bound as $\lambda\log\zeta$. A half-trusted
# annotator who is wrong costs paper L's model as much as the class is sure, which drives reliabilities towards zero or one, as the step
# function it replaces would have them.

# %%
chapter.finish()
