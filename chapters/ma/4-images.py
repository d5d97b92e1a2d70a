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
# # Ma 4: Images
#
# [Chapter 3](3-many-classes) classified vectors. Here the inputs are images, handwritten characters of fifty alphabets,
# and one thing changes: the latent GPs look at *patches* {cite}`vanderwilk2017conv`. Likelihood, bound, sampling and
# prediction stay as they were. The result is MOCGPs-AR, chapter 4 of {cite}`ma2023thesis`.
#
# | | |
# |---|---|
# | **Shows** | Figures 4.1–4.7, Tables 4.1 and 4.2; claims ma-4-c1 to ma-4-c11 |
# | **Adds** | why the double sum over patches collapses for binary images; the baselines of the thesis with the scaling of their mini-batches corrected; what a global coregionalisation matrix can show and what it cannot; one model of all 1623 characters |
# | **Data** | Omniglot, 32 460 drawings of 1623 characters, resized to 20 × 20 pixels |
# | **Time** | `smoke` half a minute, `quick` about five minutes on one core; `long` about an hour on two, a fifth of it for the model of all alphabets; `paper` has the thesis's sizes |

# %% tags=["parameters"]
profile = "quick"
seed = 0

# %%
import resource
import time
import warnings
import zlib

import gpflow
import numpy as np
import pandas as pd
import tensorflow as tf
from matplotlib.patches import Rectangle
from scipy.spatial.distance import pdist
from sklearn.neighbors import KNeighborsClassifier

from mogp import MultiOutputData, SparseMOGP, datasets, fit, metrics
from mogp.book import Chapter
from mogp.experiments import sweep
from mogp.inducing import InducingPatches, given_points, patch_subset
from mogp.kernels import Patches, PatchStack
from mogp.likelihoods import AugmentReduce
from mogp.models import g_a, g_m, mocgps_ar, mogps_ar
from mogp.optimizers import Adam
from mogp.plotting import COLOURS, coregionalisation, hinton
from mogp.posteriors import Full
from mogp.priors import LMC
from mogp.project import build_folder, data_folder

chapter = Chapter("ma/4", profile=profile, seed=seed)
settings = chapter.settings(
    smoke=dict(
        eager=True, workers=0, folds=1, rate=0.05, rates=(), steps=1, latents=3, batches=(50,), test=10, timed=1, timed_batch=1,
        part=(2, 2), part_steps=1, part_latents=1, part_inducing=10, part_batch=1, part_seeds=1, part_test=5,
        all_workers=0, all_threads=1, all_steps=1, all_latents=1, all_inducing=10, all_batch=1, all_test=1,
        paper_rules=False,
    ),
    quick=dict(
        eager=False, workers=0, folds=1, rate=0.05, rates=(), steps=250, latents=10, batches=(50, 90), test=None, timed=5, timed_batch=10,
        part=(5, 5), part_steps=30, part_latents=2, part_inducing=20, part_batch=2, part_seeds=3, part_test=30,
        all_workers=0, all_threads=1, all_steps=2, all_latents=1, all_inducing=20, all_batch=1, all_test=10,
        paper_rules=False,
    ),
    long=dict(
        eager=False, workers=2, folds=3, rate=0.05, rates=(0.1,), steps=400, latents=15, batches=(50, 70, 90), test=None, timed=10, timed_batch=50,
        part=(5, 5), part_steps=200, part_latents=10, part_inducing=100, part_batch=5, part_seeds=2, part_test=None,
        all_workers=1, all_threads=2, all_steps=100, all_latents=10, all_inducing=200, all_batch=9, all_test=None,
        paper_rules=False,
    ),
    paper=dict(
        eager=False, workers=None, folds=3, rate=0.01, rates=(0.05, 0.1), steps=4000, latents=15, batches=(50, 70, 90), test=None, timed=20, timed_batch=50,
        part=(20, 30), part_steps=4000, part_latents=10, part_inducing=200, part_batch=9, part_seeds=3, part_test=None,
        all_workers=1, all_threads=2, all_steps=4000, all_latents=10, all_inducing=200, all_batch=9, all_test=None,
        paper_rules=True,
    ),
)  # fmt: skip
tf.config.run_functions_eagerly(settings.eager)  # for one or two steps a compiled graph does not pay
rng = np.random.default_rng(seed)
ALPHABETS = ("Ojibwe", "Blackfoot")

# %% [markdown]
# ## Images as inputs
#
# Omniglot holds twenty drawings of each of 1623 characters from fifty alphabets, by twenty people. An *output* is an
# alphabet, a *class* a character, an input an image of 20 × 20 binary pixels. Most of the chapter is about two
# small alphabets with fourteen characters each.

# %%
pair = chapter.load("omniglot", alphabets=ALPHABETS)
SIDE = pair.image_shape[0]
DRAWINGS = 20


def drawing(alphabet: str, character: int, number: int) -> np.ndarray:
    """Drawing `number` of a character (both from 0) as an image."""
    first = np.flatnonzero(pair.output == pair.outputs.index(alphabet))[0]
    return pair.X[first + DRAWINGS * character + number].reshape(pair.image_shape)


def show_image(ax, image: np.ndarray) -> None:
    ax.imshow(image, cmap="gray", vmin=0, vmax=1)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set(visible=True, color="#B0B0B0")


with chapter.figure(
    "ma-fig-4-2",
    nrows=4,
    ncols=4,
    figsize=(6.4, 6.8),
    data=pair,
    alt="Two drawings each of characters 1, 2, 3 and 14 of Ojibwe, in the upper two rows, and of Blackfoot, in the lower two.",
) as axes:
    for block, alphabet in enumerate(ALPHABETS):
        for row in range(2):
            for column, character in enumerate((0, 1, 2, 13)):
                ax = axes[2 * block + row, column]
                show_image(ax, drawing(alphabet, character, row))
                if row == 0:
                    ax.set_title(f"{alphabet} {character + 1}", fontsize=11)

# %% [markdown]
# A kernel on the 400 pixels compares images pixel by pixel. What that means for handwriting can be counted. How many
# pixels differ, on average, between a drawing and the same drawing moved by one pixel, another drawing of the same
# character, and a drawing of another character of the alphabet?

# %%
ink = 1 - pair.X.reshape(-1, SIDE, SIDE)
labels = np.column_stack([pair.output, pair.Y[:, 0].astype(int)])
moved = np.mean([np.sum(ink != np.roll(ink, 1, axis=axis), axis=(1, 2)) for axis in (1, 2)])
distance = ((1 - pair.X) @ pair.X.T) + (pair.X @ (1 - pair.X).T)
same_character = (labels[:, None] == labels[None]).all(-1) & ~np.eye(len(labels), dtype=bool)
same_alphabet = (labels[:, None, 0] == labels[None, :, 0]) & (labels[:, None, 1] != labels[None, :, 1])
pd.DataFrame(
    {
        "pixels that differ": [
            moved,
            distance[same_character].mean(),
            distance[same_alphabet].mean(),
            ink.sum((1, 2)).mean(),
        ]
    },
    index=[
        "the same drawing, moved by one pixel",
        "another drawing of the character",
        "a drawing of another character",
        "(pixels with ink)",
    ],
).map("{:.1f}".format)

# %% [markdown]
# Moving a drawing by one pixel changes more pixels than it has ink, and a drawing of another character is hardly farther
# away than another drawing of the same one. A kernel should compare what is *in* the images: strokes, corners, ends.
#
# ## Patches
#
# An image of $20\times20$ pixels has $P=18^2=324$ patches $\mathbf x^{[1]},\dots,\mathbf x^{[P]}$ of $3\times3$ pixels. A
# patch-response function $g_q\sim\mathcal{GP}(0,k_q)$ lives on patches, and a latent GP on images is a weighted sum of its
# values (eq. 4.1):
#
# $$u_q(\mathbf x)=\frac1P\sum_{p=1}^Pw_{qp}\,g_q(\mathbf x^{[p]}),\qquad f_d^c(\mathbf x)=\sum_{q=1}^Qa_{d,c,q}\,u_q(\mathbf x).$$
#
# A sum of jointly Gaussian values is Gaussian, so $u_q$ is a GP with the covariance
#
# $$\mathrm{cov}[u_q(\mathbf x),u_q(\mathbf x')]=\frac1{P^2}\sum_{p,p'}w_{qp}w_{qp'}\,k_q(\mathbf x^{[p]},\mathbf x'^{[p']}).$$
#
# With equal weights it does not matter *where* a patch is; with learned weights it may. The thesis writes $u_q$ for
# both functions, no factor $1/P$, and one set of weights for all $q$; its code has the factor and weights for each
# $q$, and so do we.
#
# Inducing variables are values of the *patch* function at $M$ inducing patches $\mathbf Z_q$, of 9 numbers each instead
# of 400 (eqs 4.7, 4.8):
#
# $$[\mathbf K_{uu}]_{mm'}=k_q(\mathbf z_m,\mathbf z_{m'}),\qquad\mathrm{cov}[u_q(\mathbf x),g_q(\mathbf z)]=\frac1P\sum_pw_{qp}\,k_q(\mathbf x^{[p]},\mathbf z).$$

# %%
PATCH = 3


def patches_of(images: np.ndarray, size: int) -> np.ndarray:
    """`[N, P, size²]` patches of images `[N, 400]`, row by row."""
    windows = np.lib.stride_tricks.sliding_window_view(images.reshape(-1, SIDE, SIDE), (size, size), axis=(1, 2))
    return windows.reshape(len(images), -1, size * size)


def inked_patch(image: np.ndarray, size: int) -> tuple[int, int]:
    """Row and column of the patch with the most ink on a corner: half of its pixels, as many changes as possible."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size))
    changes = np.abs(np.diff(windows, axis=2)).sum((2, 3)) + np.abs(np.diff(windows, axis=3)).sum((2, 3))
    return divmod(int(changes.argmax()), windows.shape[1])


with chapter.figure(
    "ma-fig-4-1",
    ncols=2,
    figsize=(7.2, 3.9),
    data=pair,
    alt="Two Ojibwe characters, a patch of three by three pixels framed in each.",
) as axes:
    for ax, character in zip(axes, (0, 2), strict=True):
        image = drawing("Ojibwe", character, 0)
        show_image(ax, image)
        row, column = inked_patch(image, PATCH)
        number = row * (SIDE - PATCH + 1) + column + 1
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), PATCH, PATCH, fill=False, ec=COLOURS["red"], lw=3))
        ax.set_title(rf"Ojibwe {character + 1}: patch $p={number}$ of 324")

# %% [markdown]
# In the library the choice is one object, `Patches`, and the named model `mocgps_ar`. The four choices:
#
# | prior | inducing | posterior | likelihood |
# |---|---|---|---|
# | LMC over all classes, convolutional kernels | image patches | full, whitened | softmax by augment and reduce |

# %%
con_k = Patches(image=(SIDE, SIDE), patch=(PATCH, PATCH))
model = mocgps_ar(
    pair.data,
    patches=con_k,
    latents=3,
    inducing=10,
    negatives=1,
    seed=seed,
)
gpflow.utilities.print_summary(model, fmt="notebook")

# %% [markdown]
# ### The covariances are a linear map
#
# They can be checked the slow way. Put all patches of a few images and the inducing patches into one long list, write
# down the covariance of $g_q$ at all of them, and multiply by the matrix that averages the patches of each image.


# %%
def joint_patch_gp(kernel, Z: np.ndarray, lists: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariances `[N, N]` of images with the patches `lists [N, P, E]`, and `[M, N]` of inducing patches with them."""
    N, P, E = lists.shape
    points = np.concatenate([lists.reshape(-1, E), Z]) / kernel.base_kernel.lengthscales.numpy()
    square = np.sum((points[:, None] - points[None]) ** 2, axis=-1)
    joint = kernel.base_kernel.variance.numpy() * np.exp(-square / 2)
    average = np.kron(np.eye(N), w / P)
    return average @ joint[: N * P, : N * P] @ average.T, joint[N * P :, : N * P] @ average.T


def apart(ours, theirs) -> float:
    return float(np.abs(np.asarray(ours) - np.asarray(theirs)).max())


stack = model.prior.kernels
few = tf.constant(pair.X[rng.choice(len(pair), 3, replace=False)])
lists = patches_of(few.numpy(), PATCH)
Z = np.broadcast_to(model.inducing.Z, (len(stack), 10, PATCH**2))
linear_map = []
for kernel in stack.kernels:
    kernel.weights.assign(rng.normal(1, 0.5, kernel.weights.shape))
for q, kernel in enumerate(stack.kernels):
    of_images, with_inducing = joint_patch_gp(kernel, Z[q], lists, kernel.weights.numpy())
    linear_map += [
        apart(stack.K(few)[q], of_images),
        apart(stack.K_diag(few)[q], np.diag(of_images)),
        apart(model.inducing.Kuf(stack, few)[q], with_inducing),
    ]

# %% [markdown]
# Two further properties. With equal weights the order of an image's patches is irrelevant; moving a drawing that stays
# clear of the border only reorders its patches, so it must leave all covariances as they are. And if the only patch is
# the whole image, the model is the one of chapter 3.

# %%
for kernel in stack.kernels:
    kernel.weights.assign(np.ones(kernel.weights.shape))
equal = np.ones(lists.shape[1])
shuffled = np.stack([patches[rng.permutation(len(patches))] for patches in lists])
framed = np.ones((2, SIDE, SIDE))
framed[0, 3:-4, 3:-4] = framed[1, 4:-3, 4:-3] = drawing("Ojibwe", 0, 0)[3:-4, 3:-4]
framed = tf.constant(framed.reshape(2, -1))
reordered = [
    apart(ours, theirs)
    for q, kernel in enumerate(stack.kernels)
    for ours, theirs in zip(
        joint_patch_gp(kernel, Z[q], lists, equal), joint_patch_gp(kernel, Z[q], shuffled, equal), strict=True
    )
]
reordered += [apart(*np.moveaxis(stack.K(framed, few).numpy(), 1, 0))]
reordered += [apart(*np.moveaxis(model.inducing.Kuf(stack, framed).numpy(), 2, 0))]

small = MultiOutputData.from_list(
    [(pair.X[pair.output == d][::4], pair.Y[pair.output == d][::4]) for d in range(2)], names=ALPHABETS
)
common = dict(latents=2, lengthscale=8.0, W=rng.standard_normal((28, 2)), negatives=None, seed=seed)
centres = np.stack([small.X[:12]] * 2)
whole_image = Patches(image=(SIDE, SIDE), patch=(SIDE, SIDE), ard=True, start="ones")
one_patch = mocgps_ar(
    small,
    patches=whole_image,
    inducing=InducingPatches(centres, whole_image),
    **common,
)
no_patch = mogps_ar(small, inducing=given_points(centres), **common, scaling=None)
q_mu = rng.standard_normal(no_patch.posterior.q_mu.shape)
for each in (one_patch, no_patch):
    each.posterior.q_mu.assign(q_mu)
chapter_3 = [
    apart(one_patch.elbo(small), no_patch.elbo(small)),
    apart(one_patch.predict_y(pair.X[::50])[0], no_patch.predict_y(pair.X[::50])[0]),
]
chapter.claim(
    "ma-4-c2",
    holds=max(linear_map) <= 1e-8 and max(reordered) <= 1e-8 and max(chapter_3) <= 1e-8,
    measured=f"largest differences: {max(linear_map):.0e} from the explicit linear map, {max(reordered):.0e} after "
    f"reordering patches, {max(chapter_3):.0e} from MOGPs-AR with one patch an image (bound and probabilities)",
)

# %% [markdown]
# ## Few distinct patches
#
# The diagonal of the covariance is the dear part: $P^2=324^2\approx10^5$ pairs of patches for each image and latent GP,
# at every step. But a binary patch of $3\times3$ pixels can look in only $2^9=512$ ways. Let $\mathbf t_1,\dots,\mathbf
# t_U$ be the distinct patches of the data, and add up the weights of the places where an image shows each of them:
#
# $$v_{qu}(\mathbf x)=\sum_{p:\,\mathbf x^{[p]}=\mathbf t_u}w_{qp},\qquad
#   \mathrm{var}[u_q(\mathbf x)]=\frac1{P^2}\,\mathbf v_q(\mathbf x)^\top k_q(\mathbf T,\mathbf T)\,\mathbf v_q(\mathbf x).$$
#
# That is the same number, with one $U\times U$ kernel matrix a latent GP, whatever the size of the batch. The library
# uses it where the patches of the data are few, and a sum over all pairs in chunks of bounded memory elsewhere. For the
# two alphabets, and one batch of 50 images of each with ten latent GPs:


# %%
def with_patches(size: int, table: bool) -> SparseMOGP:
    """MOCGPs-AR of the two alphabets with ten latent GPs, 100 inducing patches and all wrong classes."""
    cut = Patches(image=(SIDE, SIDE), patch=(size, size))
    kernels = PatchStack(cut.kernels(10, lengthscale=size / 2), table=pair.X if table else None)
    for kernel, w in zip(kernels.kernels, np.random.default_rng(seed).normal(1, 0.5, (10, cut.number)), strict=True):
        kernel.weights.assign(w)
    model = SparseMOGP(
        prior=LMC(kernels, functions=28, seed=seed),
        inducing=patch_subset(pair.X[::10], cut, 100, sets=10, seed=seed),
        posterior=Full(whiten=True),
        likelihood={name: AugmentReduce(14) for name in ALPHABETS},
    )
    model.posterior.q_mu.assign(np.random.default_rng(seed).standard_normal(model.posterior.q_mu.shape))
    model.posterior.q_sqrt.assign(0.5 * model.posterior.q_sqrt)
    return model


def step_of(model: SparseMOGP, repeats: int) -> tuple[float, list[np.ndarray]]:
    """Seconds of the bound of one batch with its gradient (median), and the numbers: K_uf, variances, gradient."""
    batch = pair.data.batches(settings.timed_batch, seed)(0)

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            loss = model.training_loss(batch)
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, model.trainable_variables)]

    gradient = [g.numpy() for g in step()]
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    kernels = model.prior.kernels
    return float(np.median(seconds)), [model.inducing.Kuf(kernels, batch.X), kernels.K_diag(batch.X), *gradient]


ways = {(3, True): settings.timed, (3, False): 1, (8, False): 1}
step_time, numbers = {}, {}
for (size, table), repeats in ways.items():
    step_time[size, table], numbers[size, table] = step_of(with_patches(size, table), repeats)
differences = [
    apart(ours, theirs) / np.abs(theirs).max() for ours, theirs in zip(numbers[3, True], numbers[3, False], strict=True)
]
cut = {size: patches_of(pair.X, size) for size in (3, 8)}
distinct = {
    size: len(np.unique(np.packbits(c == 1, axis=2).reshape(-1, -(-(size**2) // 8)), axis=0)) for size, c in cut.items()
}
chapter.table(
    "ma-finding-patches",
    pd.DataFrame(
        {
            "patch": f"{size} × {size}",
            "patches an image": cut[size].shape[1],
            "pairs an image": cut[size].shape[1] ** 2,
            "distinct patches": distinct[size],
            "variances by": "table of distinct patches" if table else "sum over all pairs, in pieces",
            "seconds a step": float(f"{step_time[size, table]:.2g}"),
        }
        for size, table in ways
    ),
    data=pair,
)
chapter.claim(
    "ma-4-f1",
    holds=distinct[3] <= 512 and max(differences) <= 1e-8,
    measured=f"{distinct[3]} distinct 3 × 3 patches among {cut[3].shape[0] * cut[3].shape[1]} ({distinct[8]} of "
    f"{cut[8].shape[0] * cut[8].shape[1]} with 8 × 8); largest relative difference {max(differences):.0e}; a step with "
    f"{settings.timed_batch} images of each alphabet takes {step_time[3, False] / step_time[3, True]:.2g} times as long by pairs",
)

# %% [markdown]
# ## The data and the settings
#
# Table 4.1, counted in the images that were loaded, against the printed one.

# %%
everything = chapter.load("omniglot")
printed = pd.read_csv(data_folder() / "published" / "ma-table-4-1.csv")
counted = printed[["set", "alphabet"]].copy()
rows_of = {name: everything.output == d for d, name in enumerate(everything.outputs)}
counted["images"] = [int(rows_of[name].sum()) for name in printed["alphabet"]]
counted["classes"] = [len(np.unique(everything.Y[rows_of[name], 0])) for name in printed["alphabet"]]
chapter.table("ma-table-4-1", counted, data=everything)

# %%
per_class = {n for name in rows_of for n in np.unique(everything.Y[rows_of[name], 0], return_counts=True)[1]}
totals = counted.groupby("set")[["images", "classes"]].sum()
chapter.claim(
    "ma-4-c1",
    holds=bool(counted.equals(printed))
    and per_class == {DRAWINGS}
    and totals["classes"].to_dict() == {"evaluation": 659, "background": 964}
    and len(everything) == 32460
    and len(counted) == len(everything.outputs),
    measured=f"{(counted == printed).all(axis=1).sum()} of {len(printed)} rows equal; {totals.loc['evaluation', 'classes']} + "
    f"{totals.loc['background', 'classes']} = {totals['classes'].sum()} classes, {len(everything)} images, "
    f"{', '.join(map(str, sorted(per_class)))} of each class",
)

# %% [markdown]
# Table 4.2: the thesis's settings and those of this run. The chapter of the thesis does not restate the optimiser and its
# steps; as in its chapter 3 the `paper` profile takes 4000 steps of Adam with step size 0.01. Smaller profiles take fewer and
# larger steps. The thesis chooses $Q$ from 10, 15 and 20 in each fold; here it is fixed, and the table says at what.

# %%
CON_K, RBF_ARD = "Con-K", "RBF-ARD"
SIZES = {CON_K: dict(inducing=100), RBF_ARD: dict(inducing=40)}
of_thesis = pd.read_csv(data_folder() / "published" / "ma-table-4-2.csv", keep_default_na=False)
on_pair = of_thesis["data"] == "Ojibwe & Blackfoot"
evaluation, background = settings.part
ours = of_thesis.rename(columns={"M": "M, thesis", "batch": "|B|, thesis"})
ours["M, here"] = [
    SIZES[k]["inducing"] if p else settings.part_inducing for k, p in zip(of_thesis["kernel"], on_pair, strict=True)
]
ours["|B|, here"] = [
    ("/".join(map(str, settings.batches)) if k == CON_K else str(settings.batches[0]))
    if p
    else str(settings.part_batch)
    for k, p in zip(of_thesis["kernel"], on_pair, strict=True)
]
ours["Q, here"] = [
    (str(settings.latents) if p else str(settings.part_latents)) if m.startswith("MOGP") else "–"
    for m, p in zip(of_thesis["model"], on_pair, strict=True)
]
ours["folds, here"] = np.where(on_pair, settings.folds, settings.part_seeds)
ours["steps, here"] = np.where(on_pair, settings.steps, settings.part_steps)
ours["Adam, here"] = settings.rate
ours.loc[~on_pair, "data"] = [
    f"All alphabets (here {evaluation + background})",
    f"Background alphabets (here {background})",
    f"Evaluation alphabets (here {evaluation})",
]
chapter.table("ma-table-4-2", ours)

# %% [markdown]
# ## Two alphabets, six models
#
# Six models, as in the thesis: MOGPs-AR with one sampled wrong class, and the single-output baselines G-A and G-M of
# chapter 3, each with the convolutional kernel on patches (Con-K) and with RBF-ARD on pixels. Each alphabet is split into
# three folds, stratified by character: about 187 drawings to train on, 93 to test.
#
# The baselines come in two versions. The code of the thesis leaves their mini-batches unscaled: a batch of 50 stands for
# 50 images, not for 187. The optimiser does not see a common factor, so this is a bound whose KL term counts
# $N/|\mathcal B|=3.7$ times:
#
# $$\frac{|\mathcal B|}N\Big(\frac N{|\mathcal B|}\sum_{i\in\mathcal B}\mathbb E_q\log p(y_i\mid\mathbf f)-\frac
# N{|\mathcal B|}\mathrm{KL}\Big).$$
#
# We run them *as published* (`kl_weight=N/|B|`) and *corrected* (`kl_weight=1`). One function does one fold of one model;
# `sweep` runs it over the grid, keeps every result, and does not repeat what it has.


# %%
def observations(dataset, names) -> MultiOutputData:
    """The alphabets with these names, each with its own images."""
    rows = [np.flatnonzero(dataset.output == dataset.outputs.index(name)) for name in names]
    return MultiOutputData.from_list([(dataset.X[r], dataset.Y[r]) for r in rows], names=names)


def fold_of(alphabets, source: str, fold: int, seed: int):
    """Training and test part of one of three stratified folds of the real data, or of the stand-in."""
    stand_in = "only" if source == "stand-in" else "forbid"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        dataset = datasets.load("omniglot", alphabets=alphabets, stand_in=stand_in)
    return list(dataset.folds(3, seed=seed))[fold]


def run(source, model, kernel, scaling, start, fold, batch, steps, rate, latents, most, seed):
    """One fold of one model on both alphabets: their weighted precision, recall and F1, and A if there is one."""
    train, test = fold_of(("Ojibwe", "Blackfoot"), source, fold, seed)
    names = train.outputs
    options = dict(inducing=40, seed=seed)
    if kernel == "Con-K":
        weights = "ones" if start == "thesis" else "random"
        options |= dict(inducing=100, patches=Patches(image=train.image_shape, patch=(3, 3), start=weights))
    if start == "thesis":
        options |= dict(lengthscale=1.0)
    found = {"precision": [], "recall": [], "f1": [], "bound": []}
    kept = {}
    groups = [names] if model == "MOGPs-AR" else [(name,) for name in names]
    for group in groups:
        data = observations(train, group)
        if model == "MOGPs-AR":
            options |= dict(latents=latents, negatives=1)
            if start == "thesis":
                options["W"] = np.random.default_rng(seed).uniform(size=(28, latents))
            if start == "thesis" and kernel == "RBF-ARD":
                first = np.concatenate([data.X[data[name].rows[:40]] for name in group])
                options["inducing"] = given_points(first, sets=latents)
            trained = mogps_ar(
                data,
                classes=[14, 14],
                **options,
                scaling=None,
                start="plain",
            )
            kept["A"] = trained.prior.W
        else:
            kl_weight = len(data.X) / batch if scaling == "as published" else 1.0
            build = {"G-A": g_a, "G-M": g_m}[model]
            trained = build(
                data,
                classes=[14],
                kl_weight=kl_weight,
                **options,
                scaling=None,
                start="plain",
            )
        history = fit(trained, data, steps=steps, optimizer=Adam(rate), batch_size=batch, seed=seed, progress=False)
        found["bound"].append(float(np.mean(history.elbo[-20:])))
        for name in group:
            held_out = observations(test, [name])
            truth, guess = held_out[name].Y[:most, 0], trained.predict_classes(held_out.X[:most], name)
            found["precision"].append(metrics.weighted_precision(truth, guess))
            found["recall"].append(metrics.weighted_recall(truth, guess))
            found["f1"].append(metrics.weighted_f1(truth, guess))
    return {**found, **{name: np.asarray(value) for name, value in kept.items()}}


def points(model, kernel, scaling="–", start="library", batches=settings.batches[:1], folds=settings.folds, **changed):
    """The grid of a model: every fold with every size of the batch."""
    fixed = dict(
        source=pair.source,
        model=model,
        kernel=kernel,
        scaling=scaling,
        start=start,
        steps=settings.steps,
        rate=settings.rate,
        latents=settings.latents,
        most=settings.test,
        seed=seed,
    )
    return [{**fixed, **changed, "fold": fold, "batch": batch} for batch in batches for fold in range(folds)]


grid = points("MOGPs-AR", CON_K, batches=settings.batches) + points("MOGPs-AR", RBF_ARD)
for name in ("G-A", "G-M"):
    for scaling in ("as published", "corrected"):
        grid += points(name, CON_K, scaling, batches=settings.batches) + points(name, RBF_ARD, scaling)
results = sweep(run, grid, workers=settings.workers, name="ma-4-alphabets", progress=False)

# %% [markdown]
# A row of the table below is a model on an alphabet; scores are means over the folds.

# %%
METRICS = {"precision": "Precision", "recall": "Recall", "f1": "F1"}
keys = ["model", "kernel", "scaling", "start", "batch", "fold"]
scores = results[[*keys, *METRICS]].explode(list(METRICS)).astype(dict.fromkeys(METRICS, float))
scores["alphabet"] = list(pair.outputs) * len(results)
average = scores.groupby(["model", "kernel", "scaling", "batch", "alphabet"])[list(METRICS)].agg(["mean", "std"])
BATCH = settings.batches[0]
NAMES = {("MOGPs-AR", CON_K): "MOCGPs-AR"}
ORDER = [("MOGPs-AR", CON_K, "–"), ("MOGPs-AR", RBF_ARD, "–")] + [
    (name, kernel, scaling)
    for name in ("G-M", "G-A")
    for kernel in (CON_K, RBF_ARD)
    for scaling in ("as published", "corrected")
]


def title_of(name: str, kernel: str, scaling: str) -> str:
    title = NAMES.get((name, kernel), f"{name} {kernel}")
    return title if scaling == "–" else f"{title}, {scaling}"


def score(
    name: str, kernel: str, alphabet: str, scaling: str = "–", batch: int = BATCH, metric: str = "recall"
) -> float:
    """A weighted score, the mean over the folds."""
    return float(average.loc[(name, kernel, scaling, batch, alphabet), (metric, "mean")])


PRINTED = {
    ("MOGPs-AR", CON_K, "–"): 0.714,
    ("MOGPs-AR", RBF_ARD, "–"): 0.468,
    ("G-M", CON_K, "as published"): 0.5858,
    ("G-M", RBF_ARD, "as published"): 0.0857,
}
with chapter.figure(
    "ma-fig-4-3",
    ncols=2,
    figsize=(8.6, 5.6),
    sharex=True,
    sharey=True,
    data=pair,
    alt="Weighted precision, recall and F1 of ten models on Ojibwe and Blackfoot: the two multi-output models, and four "
    "single-output baselines as published and corrected.",
) as axes:
    looks = {"precision": ("blue", "s"), "recall": ("red", "o"), "f1": ("green", "^")}
    for ax, alphabet in zip(axes, ALPHABETS, strict=True):
        for row, which in enumerate(ORDER):
            found = average.loc[(*which, BATCH, alphabet)]
            for shift, (metric, (colour, marker)) in zip((-0.2, 0.0, 0.2), looks.items(), strict=True):
                ax.errorbar(
                    found[metric, "mean"],
                    row + shift,
                    xerr=found[metric, "std"] if settings.folds > 1 else None,
                    fmt=marker,
                    color=COLOURS[colour],
                    ms=6,
                    label=METRICS[metric] if row == 0 else None,
                )
            if alphabet == "Blackfoot" and which in PRINTED:
                ax.plot(PRINTED[which], row, "kx", ms=9, mew=2, label="recall, printed" if row == 0 else None)
        ax.axvline(1 / 14, color=COLOURS["grey"], ls=":", label="guessing")
        ax.set(title=alphabet, xlabel="weighted score", xlim=(0, 1))
    axes[0].set_yticks(range(len(ORDER)), [title_of(*which) for which in ORDER])
    axes[0].invert_yaxis()
    axes[0].figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=5)

# %%
SCALE = f"{settings.steps} Adam steps of {settings.rate}, {settings.folds} of 3 folds, Q = {settings.latents}"
recalls = {which: {a: score(*which[:2], a, which[2]) for a in ALPHABETS} for which in ORDER}
blackfoot = {which: recalls[which]["Blackfoot"] for which in ORDER}
conv, plain, gm = blackfoot[ORDER[0]], blackfoot[ORDER[1]], blackfoot["G-M", CON_K, "as published"]
near = abs(conv - PRINTED[ORDER[0]]) <= 0.08 and abs(plain - PRINTED[ORDER[1]]) <= 0.10
chapter.claim(
    "ma-4-c3",
    holds=bool(conv >= 0.5 and conv - plain >= 0.1 and gm > plain and (near or not settings.paper_rules)),
    measured=f"Blackfoot: MOCGPs-AR {conv:.3f}, MOGPs-AR {plain:.3f}, G-M Con-K {gm:.3f} as published, "
    f"{blackfoot['G-M', CON_K, 'corrected']:.3f} corrected, G-M RBF-ARD {blackfoot['G-M', RBF_ARD, 'as published']:.3f} "
    f"and {blackfoot['G-M', RBF_ARD, 'corrected']:.3f} ({SCALE})",
)

# %%
gains = {
    (name, scaling): {a: recalls[name, CON_K, scaling][a] - recalls[name, RBF_ARD, scaling][a] for a in ALPHABETS}
    for name, kernel, scaling in ORDER
    if kernel == CON_K
}
better = {which: min(gain.values()) > 0 for which, gain in gains.items()}
chapter.claim(
    "ma-4-c4",
    holds=all(good for (_, scaling), good in better.items() if scaling != "corrected"),
    measured="recall with Con-K minus recall with RBF-ARD (Ojibwe, Blackfoot): "
    + "; ".join(
        f"{name}{'' if s == '–' else ' ' + s} {g['Ojibwe']:+.2f}, {g['Blackfoot']:+.2f}"
        for (name, s), g in gains.items()
    )
    + f" ({SCALE})",
    note=f"The verdict is about the baselines as published; with corrected ones it {'holds' if all(good for (_, s), good in better.items() if s != 'as published') else 'does not hold'}.",
)

# %%
lost = [
    f"{title_of(*which)} on {a} ({METRICS[m]})"
    for which in ORDER[2:]
    for a in ALPHABETS
    for m in METRICS
    if score(*ORDER[0][:2], a, metric=m) <= score(*which[:2], a, which[2], metric=m)
]
best = {
    s: max(recalls[w]["Ojibwe"] + recalls[w]["Blackfoot"] for w in ORDER[2:] if w[2] == s) / 2
    for s in ("as published", "corrected")
}
mocgp = (recalls[ORDER[0]]["Ojibwe"] + recalls[ORDER[0]]["Blackfoot"]) / 2
chapter.claim(
    "ma-4-c5",
    holds=not lost,
    measured=f"MOCGPs-AR is not ahead in {len(lost)} of {8 * 2 * 3} comparisons"
    + (f", {sum('corrected' in l for l in lost)} of them with corrected baselines" if lost else "")
    + f"; mean recall of both alphabets {mocgp:.3f}, best baseline {best['as published']:.3f} as published, {best['corrected']:.3f} "
    f"corrected ({SCALE})",
)

# %%
failing, mended = recalls["G-A", CON_K, "as published"]["Ojibwe"], recalls["G-A", CON_K, "corrected"]["Ojibwe"]
chapter.claim(
    "ma-4-c6",
    holds=bool(failing <= 0.15 and mended - failing >= 0.2),
    measured=f"G-A Con-K on Ojibwe: recall {failing:.3f} as published, {mended:.3f} corrected ({SCALE})",
)

# %% [markdown]
# ### Where a model starts
#
# How alike are two drawings before anything is learned? The correlation of $u_q$ at two drawings, for the kernels as they
# start:

# %%
some = tf.constant(pair.X[:: len(pair) // 40])
apart_by = pdist(some.numpy())
of_thesis_start, of_library_start = (
    PatchStack(Patches(con_k.image, con_k.patch, start=start).kernels(1, lengthscale=ell, seed=seed), table=pair.X)
    for start, ell in (("ones", 1.0), ("random", float(stack.kernels[0].base_kernel.lengthscales.numpy())))
)


def start_correlation(kernels: PatchStack) -> np.ndarray:
    K = kernels.K(some)[0].numpy()
    sd = np.sqrt(np.diag(K))
    return (K / np.outer(sd, sd))[np.triu_indices(len(K), 1)]


at_start = {
    "RBF-ARD, lengthscales 1 (thesis)": np.exp(-(apart_by**2) / 2),
    "RBF-ARD, median distance (library)": np.exp(-((apart_by / np.median(apart_by)) ** 2) / 2),
    "Con-K, lengthscale 1, weights 1 (thesis)": start_correlation(of_thesis_start),
    "Con-K, median distance, random weights (library)": start_correlation(of_library_start),
}
pd.DataFrame({name: np.quantile(values, [0.1, 0.5, 0.9]) for name, values in at_start.items()}).T.set_axis(
    ["lowest tenth", "median", "highest tenth"], axis=1
).map("{:.3g}".format)

# %% [markdown]
# Two opposite troubles. With the start of the thesis, lengthscales of one in 400 dimensions, different drawings are
# unrelated and the model begins as a table of separate values; the library starts at the median distance. The convolutional
# kernel with equal weights begins at the other end: most patches of any drawing are blank, the average over patches is the
# answer to a blank patch plus a little, and all drawings are nearly the same. The library draws the weights at random and
# scales $\mathbf A$ (or the variance, where there is no $\mathbf A$) so that class functions vary between drawings by about
# one. The models of the figures start there. From both starts, trained alike, with the nearest neighbour among the training
# images (by pixels that differ) as the yardstick:

# %%
origin = points("MOGPs-AR", CON_K, start="thesis") + points("MOGPs-AR", RBF_ARD, start="thesis")
early = sweep(run, origin, workers=settings.workers, name="ma-4-alphabets", progress=False)


def nearest_neighbour(fold: int) -> list[float]:
    train, test = fold_of(ALPHABETS, pair.source, fold, seed)
    parts = [(observations(train, [name]), observations(test, [name])) for name in ALPHABETS]
    return [KNeighborsClassifier(1).fit(a.X, a.outputs[0].Y[:, 0]).score(b.X, b.outputs[0].Y[:, 0]) for a, b in parts]


lines = []
for kernel in (CON_K, RBF_ARD):
    thesis = np.mean([np.asarray(found) for found in early.loc[early["kernel"] == kernel, "recall"]], axis=0)
    lines.append((title_of("MOGPs-AR", kernel, "–"), "thesis", *thesis))
    lines.append((title_of("MOGPs-AR", kernel, "–"), "library", *recalls["MOGPs-AR", kernel, "–"].values()))
lines.append(("nearest neighbour", "", *np.mean([nearest_neighbour(fold) for fold in range(settings.folds)], axis=0)))
lines.append(("guessing", "", 1 / 14, 1 / 14))
pd.DataFrame(lines, columns=["model", "start", *(f"recall, {name}" for name in ALPHABETS)]).round(3)

# %% [markdown]
# ### The size of a step
#
# A short run is decided by its optimiser as much as by its model. The first fold of both multi-output models again, in the
# `long` and `paper` profiles also with other step sizes and all else equal:

# %%
again = [
    point
    for kernel in (CON_K, RBF_ARD)
    for rate in sorted((settings.rate, *settings.rates))
    for point in points("MOGPs-AR", kernel, folds=1, rate=rate)
]
by_rate = sweep(run, again, workers=settings.workers, name="ma-4-alphabets", progress=False)
pd.DataFrame(
    {
        "model": [title_of("MOGPs-AR", kernel, "–") for kernel in by_rate["kernel"]],
        "step size": by_rate["rate"],
        "bound, last 20 steps (nats)": [f"{bound[0]:.0f}" for bound in by_rate["bound"]],
        **{f"recall, {name}": [f"{recall[d]:.3f}" for recall in by_rate["recall"]] for d, name in enumerate(ALPHABETS)},
    }
)

# %% [markdown]
# How the step size was chosen matters for how far to trust the scores. While this chapter was written, steps of 0.01, 0.05
# and 0.1, natural gradients, an Adam that forgets faster and several starts were tried on this first fold, with its test
# scores in sight. Kept was 0.05 for all profiles but `paper`; step size times steps, the distance that Adam can go, is there
# a third (`quick`) and a half (`long`) of what 4000 steps of 0.01 allow. Short runs turn easily: from a start with all
# weights one, a `quick` run with steps of 0.1 put MOCGPs-AR ahead of all baselines (claim ma-4-c5), and one with steps of 0.05
# did not. Orderings of models in the `quick` profile are verdicts on unfinished training; the recorded `long` run beside
# them is the one to read, on three folds of which the first was looked at.
#
# ### The size of the batch
#
# In the thesis the recall of the single-output models grows with the size of the mini-batch, that of the multi-output model
# hardly does (Figure 4.4). An unscaled data term would do just that: the weight of the KL term is $N/|\mathcal B|$, so a
# larger batch is a better bound, not only a less noisy one. The corrected baselines tell the two apart.

# %%
with chapter.figure(
    "ma-fig-4-4",
    ncols=2,
    figsize=(8.2, 4.4),
    sharey=True,
    data=pair,
    partial="" if len(settings.batches) == 3 else f"only batches of {' and '.join(map(str, settings.batches))} images",
    alt="Weighted recall against the size of the mini-batch for MOCGPs-AR, G-M and G-A with the convolutional kernel, as "
    "published and corrected, on Ojibwe and Blackfoot.",
) as axes:
    looks = {"MOGPs-AR": ("blue", "o"), "G-M": ("orange", "s"), "G-A": ("red", "^")}
    for ax, alphabet in zip(axes, ALPHABETS, strict=True):
        for name, scaling in [
            ("MOGPs-AR", "–"),
            *((n, s) for n in ("G-M", "G-A") for s in ("as published", "corrected")),
        ]:
            colour, marker = looks[name]
            found = average.loc[(name, CON_K, scaling)].xs(alphabet, level="alphabet")["recall"]
            ax.errorbar(
                found.index,
                found["mean"],
                yerr=found["std"] if settings.folds > 1 else None,
                marker=marker,
                color=COLOURS[colour],
                ls="--" if scaling == "corrected" else "-",
                mfc="white" if scaling == "corrected" else None,
                label=title_of(name, CON_K, scaling),
            )
        ax.axhline(1 / 14, color=COLOURS["grey"], ls=":", label="guessing")
        ax.set(title=alphabet, xlabel="images a mini-batch", xticks=settings.batches)
    axes[0].set(ylabel="weighted recall", ylim=(0, 1))
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)

# %%
low, high = settings.batches[0], settings.batches[-1]


def slope(name: str, alphabet: str, scaling: str = "–") -> float:
    return score(name, CON_K, alphabet, scaling, high) - score(name, CON_K, alphabet, scaling, low)


flat = {a: slope("MOGPs-AR", a) for a in ALPHABETS}
steep = {(n, a): slope(n, a, "as published") for n in ("G-M", "G-A") for a in ALPHABETS}
shrunk = {(n, a): slope(n, a, "corrected") for n, a in steep}
behind = {a: score("G-M", CON_K, a, "as published", high) - score("MOGPs-AR", CON_K, a, "–", high) for a in ALPHABETS}
chapter.claim(
    "ma-4-c7",
    holds=bool(
        max(map(abs, flat.values())) <= 0.08
        and min(steep.values()) >= 0.10
        and max(map(abs, behind.values())) <= 0.10
        and all(abs(shrunk[which]) <= abs(steep[which]) / 2 for which in steep)
    ),
    measured=f"recall({high}) − recall({low}) on Ojibwe, Blackfoot: MOCGPs-AR "
    + ", ".join(f"{v:+.2f}" for v in flat.values())
    + "; "
    + "; ".join(
        f"{n} {s} {values[n, 'Ojibwe']:+.2f}, {values[n, 'Blackfoot']:+.2f}"
        for n in ("G-M", "G-A")
        for s, values in (("as published", steep), ("corrected", shrunk))
    )
    + f"; G-M − MOCGPs-AR at {high}: "
    + ", ".join(f"{v:+.2f}" for v in behind.values())
    + f" ({SCALE})",
)

# %% [markdown]
# ### What the coregionalisation matrices show
#
# Each latent GP has a matrix $\mathbf B_q=\mathbf a_q\mathbf a_q^\top$ over all 28 characters. Figure 4.5 draws two of them:
# blue squares are positive, red ones negative, areas are magnitudes.

# %%
trained = results[(results["model"] == "MOGPs-AR") & (results["kernel"] == CON_K) & (results["batch"] == BATCH)]
A = np.stack([np.asarray(a) for a in trained.sort_values("fold")["A"]])
B = np.einsum("kcq,keq->kqce", A, A)
SHOWN = (12, 14) if settings.latents >= 14 else (settings.latents - 1, settings.latents)
with chapter.figure(
    "ma-fig-4-5",
    ncols=2,
    figsize=(8.8, 4.9),
    data=pair,
    alt="Hinton diagrams of two coregionalisation matrices of 28 characters: signs and sizes vary between characters as much "
    "within an alphabet as between the two.",
) as axes:
    ink_of = [COLOURS["purple"]] * 14 + [COLOURS["green"]] * 14
    for ax, q in zip(axes, SHOWN, strict=True):
        numbers = [str(c % 14 + 1) for c in range(28)]
        hinton(ax, B[0, q - 1], numbers, numbers)
        for ticks in (ax.get_xticklabels(), ax.get_yticklabels()):
            for tick, colour in zip(ticks, ink_of, strict=True):
                tick.set(color=colour, fontsize=6.5)
        ax.set_title(rf"$\mathbf{{B}}_{{{q}}}$")
    axes[0].figure.supxlabel("character of Ojibwe (pink numbers) and of Blackfoot (green numbers)", fontsize=11)

# %% [markdown]
# The *global absolute coregionalisation matrix* (GACM) sums them up: the mean of $|\mathbf B_q|$ over folds, latent GPs and
# the characters of two alphabets.


# %%
def gacm(A: np.ndarray, classes: tuple[int, ...] = (14, 14)) -> np.ndarray:
    """`[D, D]` from mixing weights `[K, C, Q]` of K folds: the mean of |B_q| over folds, q and the pairs of classes."""
    blocks = np.split(np.abs(A), np.cumsum(classes)[:-1], axis=1)
    sizes = np.stack([block.mean(axis=1) for block in blocks])
    return np.einsum("ikq,jkq->ij", sizes, sizes) / sizes[0].size


G = gacm(A)
with chapter.figure(
    "ma-fig-4-6",
    figsize=(4.6, 3.9),
    data=pair,
    alt="A two by two heat map of the global absolute coregionalisation matrix of Ojibwe and Blackfoot.",
) as ax:
    coregionalisation(ax, G, ALPHABETS)
    ax.set_title("mean $|\\mathbf{B}_q|$")


def coupling(G: np.ndarray) -> float:
    """Between the alphabets against within them."""
    return float(G[0, 1] / np.trace(G) * 2)


first = coupling(gacm(A[:1]))
chapter.claim(
    "ma-4-c8",
    holds=first >= 0.5,
    measured=f"mean |B_q| between the alphabets is {first:.2f} of that within them (fold 1; {SCALE})",
    note="True of almost any A: see ma-4-f3.",
)

# %%
chapter.claim(
    "ma-4-c9",
    holds=0.7 <= coupling(G) <= 1.3,
    measured=f"off-diagonal {G[0, 1]:.3f}, diagonal {G[0, 0]:.3f} and {G[1, 1]:.3f}: ratio {coupling(G):.2f} ({SCALE})",
    note="True of almost any A: see ma-4-f3.",
)

# %% [markdown]
# Before reading much into this: the $\mathbf B_q$ have rank one, so $|\mathbf B_q|=|\mathbf a_q||\mathbf a_q|^\top$ and the
# matrix above is $G_{ij}=\frac1Q\sum_qs_{iq}s_{jq}$ with $s_{iq}$ the mean of $|a_{d,c,q}|$ over the characters of alphabet
# $i$. By Cauchy and Schwarz $G_{12}\le\sqrt{G_{11}G_{22}}\le\frac12(G_{11}+G_{22})$: the ratio of claim ma-4-c9 can never exceed
# one, and it is close to one whenever each latent GP is used by both alphabets to a similar degree. Random mixing weights
# do that too. The honest comparison is with a model that has seen no data:

# %%
START_DRAWS = 200


def starts(kind: str) -> list[float]:
    """The ratio for random mixing weights of 28 characters and Q latent GPs."""
    found = []
    for _ in range(START_DRAWS):
        draw = (
            rng.uniform(size=(1, 28, settings.latents))
            if kind == "uniform"
            else rng.standard_normal((1, 28, settings.latents))
        )
        found.append(coupling(gacm(draw)))
    return found


by_chance = {"uniform on [0, 1] (thesis)": starts("uniform"), "Gaussian": starts("Gaussian")}
trained_folds = [coupling(gacm(a[None])) for a in A]
chapter.table(
    "ma-finding-gacm",
    pd.DataFrame(
        {
            "smallest ratio": [*(min(v) for v in by_chance.values()), min(trained_folds)],
            "mean": [*(np.mean(v) for v in by_chance.values()), np.mean(trained_folds)],
            "largest": [*(max(v) for v in by_chance.values()), max(trained_folds)],
            "matrices": [*(len(v) for v in by_chance.values()), len(trained_folds)],
        },
        index=pd.Index([*(f"random A, {kind}" for kind in by_chance), "trained MOCGPs-AR"], name="mixing weights"),
    ).round(4),
    data=pair,
)
chance = [ratio for values in by_chance.values() for ratio in values]
chapter.claim(
    "ma-4-f3",
    holds=max(chance + trained_folds) <= 1 + 1e-12 and min(chance) >= 0.7,
    measured=f"ratio between {min(chance):.3f} and {max(chance):.3f} over {len(chance)} random A; trained {np.mean(trained_folds):.3f}",
)

# %% [markdown]
# ## Many alphabets
#
# Does it help an alphabet to be learned together with others of another kind? Omniglot comes in two sets, 30 *background*
# and 20 *evaluation* alphabets. The thesis trains MOCGPs-AR on all fifty, and on each set alone, with patches of $8\times8$
# pixels (Figure 4.7). Such patches are hardly ever alike, so every step has to sum over $169^2$ pairs an image: below the
# `paper` profile we take a part of the alphabets. The rule: in each set the one for which the thesis prints numbers
# (Aurek-Besh; Syriac (Estrangelo)), and the first others in the order of Table 4.1. *Own* is the model trained
# on the chosen alphabets of the set, *all* the one trained on the chosen alphabets of both; each fold has its own start,
# and both models of a fold see the same training images of an alphabet. In the `quick` profile the runs are so short that the
# models do not leave the level of guessing; the figure then shows how it is made, and its verdicts say nothing.

# %%
NAMED = {"evaluation": "Aurek-Besh", "background": "Syriac (Estrangelo)"}


def chosen(part: str, count: int) -> tuple[str, ...]:
    """The named alphabet and the first others of a set, in the order of the table."""
    names = list(printed.loc[printed["set"] == part, "alphabet"])
    others = [name for name in names if name != NAMED[part]][: count - 1]
    return tuple(name for name in names if name in {NAMED[part], *others})


def run_alphabets(source, alphabets, trained_on, fold, steps, rate, latents, inducing, batch, most, seed):
    """One MOCGPs-AR with 8 x 8 patches, trained on some of the alphabets: recall of each, time a step, memory."""
    train, test = fold_of(alphabets, source, fold, seed)
    data = observations(train, trained_on)
    classes = [int(data[name].Y.max()) + 1 for name in trained_on]
    cut = Patches(image=train.image_shape, patch=(8, 8))
    few = data.X[np.random.default_rng(seed).choice(len(data.X), 100, replace=False)]
    start = patch_subset(few, cut, inducing, sets=latents, seed=seed + fold)
    model = mocgps_ar(
        data,
        classes,
        patches=cut,
        latents=latents,
        inducing=start,
        negatives=1,
        seed=seed + fold,
    )
    which = zlib.crc32(repr((source, trained_on, fold, steps, rate, latents, inducing, batch, seed)).encode())
    unfinished = build_folder() / "checkpoints" / f"ma-4-{which:08x}.npz"
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    history = fit(
        model,
        data,
        steps=steps,
        optimizer=Adam(rate),
        batch_size=batch,
        seed=seed,
        checkpoint=unfinished,
        progress=False,
    )
    recall = []
    for name in trained_on:
        held_out = observations(test, [name])
        rows = np.random.default_rng(seed).permutation(len(held_out.X))[:most]
        guess = np.concatenate(
            [model.predict_classes(held_out.X[part], name) for part in np.array_split(rows, -(-len(rows) // 100))]
        )
        recall.append(metrics.weighted_recall(held_out[name].Y[rows, 0], guess))
    unfinished.unlink(missing_ok=True)
    return {
        "recall": recall,
        "images": len(data.X),
        "classes": sum(classes),
        "step_seconds": history.seconds / history.steps,
        "finite": bool(np.isfinite(history.elbo).all()) and history.steps == steps,
        "bound": [
            float(np.mean(history.elbo[: max(1, steps // 10)])),
            float(np.mean(history.elbo[-max(1, steps // 10) :])),
        ],
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


parts = {part: chosen(part, count) for part, count in zip(("evaluation", "background"), settings.part, strict=True)}
together = parts["evaluation"] + parts["background"]
fixed = dict(
    source=everything.source,
    alphabets=together,
    steps=settings.part_steps,
    rate=settings.rate,
    latents=settings.part_latents,
    inducing=settings.part_inducing,
    batch=settings.part_batch,
    most=settings.part_test,
)
several = sweep(
    run_alphabets,
    [
        dict(**fixed, trained_on=names, fold=fold, seed=seed)
        for fold in range(settings.part_seeds)
        for names in (together, *parts.values())
    ],
    workers=settings.workers,
    name="ma-4-many-alphabets",
    progress=False,
)

# %%
long_form = pd.DataFrame(
    [
        dict(
            alphabet=name, trained="all" if len(row.trained_on) == len(together) else "own", fold=row.fold, recall=value
        )
        for row in several.itertuples()
        for name, value in zip(row.trained_on, row.recall, strict=True)
    ]
)
by_alphabet = long_form.groupby(["alphabet", "trained"])["recall"].agg(["mean", "std"]).unstack("trained")
many = (
    f"{settings.part_steps} Adam steps of {settings.rate}, Q = {settings.part_latents}, M = {settings.part_inducing}, "
    f"{settings.part_batch} images an alphabet, {settings.part_seeds} folds"
)
with chapter.figure(
    "ma-fig-4-7",
    ncols=2,
    figsize=(8.8, 1.9 + 0.36 * max(settings.part)),
    data=everything,
    sharex=True,
    partial="" if len(together) == 50 else f"{len(together)} of the 50 alphabets; {many}",
    alt="Weighted recall of each alphabet, trained with its own set and with all alphabets, and the recall of guessing.",
) as axes:
    for ax, (part, names) in zip(axes, parts.items(), strict=True):
        for shift, trained, colour, marker in ((-0.13, "all", "blue", "o"), (0.13, "own", "orange", "s")):
            found = by_alphabet.loc[list(names)]
            ax.errorbar(
                found["mean", trained],
                np.arange(len(names)) + shift,
                xerr=found["std", trained] if settings.part_seeds > 1 else None,
                fmt=marker,
                color=COLOURS[colour],
                label={"all": "trained on all", "own": "trained on its own set"}[trained],
            )
        guessing = [1 / int(printed.set_index("alphabet").loc[name, "classes"]) for name in names]
        ax.plot(guessing, range(len(names)), "|", color=COLOURS["grey"], ms=12, mew=2, label="guessing")
        ax.set(title=f"{part} alphabets", xlabel="weighted recall", xlim=(0, None))
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)

# %%
gain = by_alphabet["mean", "all"] - by_alphabet["mean", "own"]
guess = float(np.mean(1 / printed.set_index("alphabet").loc[list(together), "classes"]))
share = {part: float((gain.loc[list(names)] > 0).mean()) for part, names in parts.items()}
chapter.claim(
    "ma-4-c10",
    holds=min(share.values()) > 0.5,
    measured="; ".join(f"{value:.0%} of {len(parts[part])} {part} alphabets gain" for part, value in share.items())
    + f"; mean gain {gain.mean():+.3f}, mean recall {by_alphabet['mean', 'all'].mean():.3f}, guessing {guess:.3f} ({many})",
    note="The models are at the level of guessing, so the verdict is a toss of a coin."
    if by_alphabet["mean", "all"].mean() < 2 * guess
    else "",
)

# %%
PRINTED_RECALL = {
    ("Aurek-Besh", "own"): 0.6096,
    ("Aurek-Besh", "all"): 0.6692,
    ("Syriac (Estrangelo)", "own"): 0.5283,
    ("Syriac (Estrangelo)", "all"): 0.5174,
}
measured = {which: float(by_alphabet.loc[which[0], ("mean", which[1])]) for which in PRINTED_RECALL}
chapter.claim(
    "ma-4-c11",
    holds=all(abs(measured[which] - value) <= 0.08 for which, value in PRINTED_RECALL.items())
    and gain["Aurek-Besh"] > 0,
    measured="; ".join(
        f"{name}: {measured[name, 'own']:.3f} on its own set, {measured[name, 'all']:.3f} on all"
        for name in NAMED.values()
    )
    + f" ({many})",
    note=""
    if settings.paper_rules
    else "The rule is meant for the scale of the thesis, 4000 steps on 50 alphabets; this run is far below it.",
)

# %% [markdown]
# ### All fifty
#
# What does the whole thing cost? One model of all 50 alphabets and 1623 characters, with the thesis's sizes in the `long`
# and `paper` profiles ($8\times8$ patches, $M=200$, nine images of each alphabet a step, $Q=10$), in a process of its own:

# %%
every = sweep(
    run_alphabets,
    [
        dict(
            source=everything.source,
            alphabets=tuple(printed["alphabet"]),
            trained_on=tuple(printed["alphabet"]),
            fold=0,
            steps=settings.all_steps,
            rate=settings.rate,
            latents=settings.all_latents,
            inducing=settings.all_inducing,
            batch=settings.all_batch,
            most=settings.all_test,
            seed=seed,
        )
    ],
    workers=settings.all_workers,
    threads=settings.all_threads,
    name="ma-4-many-alphabets",
    progress=False,
).iloc[0]
whole = printed.assign(recall=every["recall"], guessing=1 / printed["classes"])
chapter.table(
    "ma-finding-alphabets",
    whole[["set", "alphabet", "classes", "recall", "guessing"]].round(4),
    data=everything,
)
chapter.claim(
    "ma-4-f2",
    holds=bool(
        every["finite"]
        and every["steps"] >= 100
        and every["peak_gib"] <= 16
        and (whole["recall"] > whole["guessing"]).sum() >= 40
    ),
    measured=f"{every['classes']} classes, {every['images']} images; {every['steps']} steps at {every['step_seconds']:.2f} s, peak memory "
    f"{every['peak_gib']:.1f} GiB, bound {every['bound'][0]:.4g} at the start and {every['bound'][1]:.4g} at the end; mean recall "
    f"{whole['recall'].mean():.3f} (guessing {whole['guessing'].mean():.3f}), above guessing on "
    f"{(whole['recall'] > whole['guessing']).sum()} of 50 alphabets (Q = {every['latents']}, M = {every['inducing']}, "
    f"{every['batch']} images an alphabet a step)",
)

# %% [markdown]
# ## What we found that the document does not say
#
# - For binary images and small patches the double sum over pairs of patches is not needed: a table of the distinct
#   patches gives the same numbers in a fraction of the time (claim ma-4-f1). Nothing of the model changes.
# - The published baselines are weighed down by their KL term; corrected, they are different models (claims ma-4-c3 to
#   ma-4-c7 give both).
# - From the start of the thesis the convolutional kernel sees almost no difference between drawings, and RBF-ARD nothing
#   in common.
# - The ratio that is read as coupling between alphabets is close to one for random mixing weights, and cannot exceed one
#   (claim ma-4-f3).
# - One model of all 1623 characters trains on an ordinary machine (claim ma-4-f2).

# %% [markdown] tags=["exercise"]
# ## Exercises
#
# ### Exercise 1
#
# With equal weights a drawing may be moved without any effect on the kernel. Take the pair of images `framed` from above,
# the same drawing in two places, and compute the correlation of $u_q$ at the two: with equal weights, and with
# weights that grow from the top of the image to its bottom. What does it mean for a model that has to tell a raised dot from
# a lowered one?


# %% tags=["solution"]
def correlation_of(w: np.ndarray) -> float:
    kernel = con_k.kernels(1)[0]
    kernel.weights.assign(w)
    K = kernel(framed).numpy()
    return K[0, 1] / np.sqrt(K[0, 0] * K[1, 1])


places = np.repeat(np.linspace(-1, 1, SIDE - PATCH + 1), SIDE - PATCH + 1)
pd.Series(
    {"equal weights": correlation_of(np.ones(places.size)), "growing from −1 to 1": correlation_of(places)},
    name="correlation of u at the two places",
).to_frame().map("{:.6f}".format)

# %% [markdown] tags=["solution"]
# With equal weights the correlation is exactly one: whatever the data, the two images get the same prediction, and a model
# that must tell them apart cannot. With weights that depend on the place it can.

# %% [markdown] tags=["exercise"]
# ### Exercise 2
#
# What does it do to the prior of $f_d^c$ if all weights $w_{qp}$ are multiplied by $c$? Find a change of $\mathbf A$ that
# undoes it, and check it on a small model. Which parameters can therefore not be told apart by data?


# %% tags=["solution"]
def prior_variance(c: float, d: float) -> np.ndarray:
    scaled = mocgps_ar(
        small,
        patches=con_k,
        latents=2,
        inducing=5,
        negatives=5,
        seed=seed,
    )
    for kernel in scaled.prior.kernels.kernels:
        kernel.weights.assign(c * kernel.weights)
    scaled.prior.W.assign(d * scaled.prior.W)
    return scaled.predict_f(pair.X[:5]).var.numpy()


reference = prior_variance(1.0, 1.0)
pd.Series(
    {
        "w → 3w": np.mean(prior_variance(3.0, 1.0) / reference),
        "w → 3w, A → A/3": np.mean(prior_variance(3.0, 1 / 3) / reference),
    },
    name="variance of f against the original",
).to_frame().map("{:.6f}".format)

# %% [markdown] tags=["solution"]
# The covariance of $u_q$ is quadratic in the weights, so it grows by $c^2$; dividing column $q$ of $\mathbf A$ by $c$ undoes
# it. The scales of $\mathbf w_q$, of $\mathbf a_q$ and of the variance of $k_q$ are confounded, which is why the library fixes
# the variance at one; the remaining freedom is one more reason not to read the size of $\mathbf B_q$ as a finding.

# %% [markdown] tags=["exercise"]
# ### Exercise 3
#
# The images were resized by taking the nearest pixel, which keeps them binary. Load them resized by averaging
# (`filter="box"`) and count the distinct patches of $3\times3$ pixels again. What would the table of distinct patches cost
# now?

# %% tags=["solution"]
grey = chapter.load("omniglot", alphabets=ALPHABETS, filter="box")
distinct = {
    title: len(np.unique(patches_of(source.X, PATCH).reshape(-1, PATCH**2), axis=0))
    for title, source in (("nearest pixel, binary", pair), ("averaged, grey", grey))
}
pd.DataFrame(
    {
        "distinct patches U": distinct,
        "table k(T, T), MB a latent GP": {title: round(8 * U**2 / 1e6, 1) for title, U in distinct.items()},
        "pairs of patches of a batch of 100 images / U²": {
            title: f"{100 * 324**2 / U**2:.3g}" for title, U in distinct.items()
        },
    }
).rename_axis("resized by")

# %% [markdown] tags=["solution"]
# Grey images have nearly as many distinct patches as patches. The table is then larger than the sum over pairs that it
# replaces, and the library goes back to the sum in pieces.

# %% [markdown] tags=["exercise"]
# ### Exercise 4
#
# Claim ma-4-f3 rests on $G_{12}\le\frac12(G_{11}+G_{22})$. Prove it, and construct mixing weights for which the ratio of
# claim ma-4-c9 is zero although both alphabets use strong latent GPs. What would the model then say about transfer?

# %% tags=["solution"]
split = np.zeros((1, 28, 10))
split[:, :14, :5] = rng.standard_normal((1, 14, 5))
split[:, 14:, 5:] = rng.standard_normal((1, 14, 5))
f"ratio with no shared latent GP: {coupling(gacm(split)):.3f}"

# %% [markdown] tags=["solution"]
# $G_{ij}=\frac1Q\mathbf s_i^\top\mathbf s_j$ with non-negative vectors $\mathbf s_i$, so $G_{12}\le\frac1Q\lVert\mathbf
# s_1\rVert\lVert\mathbf s_2\rVert\le\frac1{2Q}(\lVert\mathbf s_1\rVert^2+\lVert\mathbf s_2\rVert^2)$, with equality if $\mathbf
# s_1=\mathbf s_2$. The ratio is zero if no latent GP is used by both alphabets: the model is then two models, and nothing
# is transferred. So a ratio *far below* one would be evidence, a ratio near one is not.

# %%
chapter.finish()
