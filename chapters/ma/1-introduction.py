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
# # Ma 1: Introduction
#
# C. Ma's thesis {cite}`ma2023thesis` asks one question three times: *how can a Gaussian process with several outputs
# use the structure of its data?* The structures are many classes, images, and a hierarchy of replicas. This chapter
# draws them (Figure 1.1), writes each one down as data for a model, and says which chapter answers which question.
#
# | | |
# |---|---|
# | **Shows** | Figure 1.1; the three data structures as `MultiOutputData`; the map of the thesis |
# | **Data** | none: small synthetic arrays, made below |
# | **Time** | a few seconds in every profile (`smoke`, `quick`, `long`, `paper` do the same work) |
# | **Needs** | nothing; [Chapter 2](2-gaussian-processes) is the background |

# %% tags=["parameters"]
profile = "quick"
seed = 0

# %%
import numpy as np
import pandas as pd
from matplotlib.patches import Rectangle

from mogp import MultiOutputData
from mogp.book import Chapter
from mogp.book.plots import graph
from mogp.plotting import COLOURS

chapter = Chapter("ma/1", profile=profile, seed=seed)
rng = np.random.default_rng(seed)

# %% [markdown]
# ## Why several outputs
#
# A Gaussian process (GP) is a distribution over functions $f:\mathbb R^P\to\mathbb R$, fixed by a mean and a covariance
# function {cite}`rasmussen2006`. A *multi-output* GP is a distribution over $D$ functions at once,
#
# $$\mathbf f(\mathbf x) = [f_1(\mathbf x), \dots, f_D(\mathbf x)]^\top,\qquad
#   \mathrm{cov}[f_d(\mathbf x), f_{d'}(\mathbf x')] = k_{dd'}(\mathbf x,\mathbf x'),$$
#
# so that what is seen of one output says something about the others {cite}`alvarez2012kernels`. The pay-off is largest
# where one output has few observations and a related one has many; [Chapter 2](2-gaussian-processes) measures it, and
# also measures what happens when the outputs have nothing to do with each other.
#
# The thesis starts from three kinds of data on which the multi-output GPs of its time did poorly:
#
# 1. **Many classes.** Each output is a multi-class problem. A softmax over $C_d$ classes needs $C_d$ latent functions,
#    and every term of the objective touches all of them.
# 2. **Images.** A stationary kernel on raw pixels compares images pixel by pixel, and knows nothing of a stroke
#    that has moved.
# 3. **Hierarchies.** Each of $D$ outputs was measured in $R$ replicas. A flat multi-output model either pools the
#    replicas or treats them as $DR$ unrelated outputs.
#
# ## Figure 1.1: three data structures
#
# We make a small synthetic example of each: points of several classes in the plane, a glyph of two strokes on a pixel
# grid with one patch marked (the convolutional kernels of Chapter 4 compare images patch by patch), and a tree of
# outputs and replicas.

# %%
CLASSES = 8
centres = 2.3 * np.column_stack([np.cos(a := np.arange(CLASSES) * 2 * np.pi / CLASSES), np.sin(a)])
labels = np.repeat(np.arange(CLASSES), 14)
points = centres[labels] + 0.42 * rng.standard_normal((len(labels), 2))


def glyph(side: int = 20) -> np.ndarray:
    """A made-up character: an arc over a slanted stroke, on a `side` by `side` grid."""
    row, column = np.mgrid[:side, :side] / (side - 1)
    arc = np.abs(np.hypot(row - 0.42, column - 0.5) - 0.27) < 0.05
    stroke = (np.abs(column - 0.75 + 0.55 * (row - 0.35)) < 0.05) & (row > 0.35) & (row < 0.95)
    return ((arc & (row < 0.62)) | stroke).astype(float)


image = glyph()
PATCH = 5

# %%
tree = {"y": (3.75, 1.9)}
shown = {"1": 0.6, "2": 3.2, "D": 6.8}
for d, place in shown.items():
    tree[f"y{d}"] = (place, 1.0)
    for r, shift in (("1", -0.85), ("2", 0.0), ("R", 0.95)):
        tree[f"y{d}{r}"] = (place + shift, 0.0)
tree |= {"dots": (5.0, 1.0)} | {f"dots{d}": (place + 0.48, 0.0) for d, place in shown.items()}
names = {f"y{d}": rf"$y_{d}$" for d in shown}
names |= {f"y{d}{r}": rf"$y_{d}^{{({r})}}$" for d in shown for r in "12R"}
names |= {node: r"$\cdots$" for node in tree if node.startswith("dots")} | {"y": r"$\mathbf{y}$"}

with chapter.figure(
    "ma-fig-1-1",
    nrows=2,
    ncols=2,
    figsize=(7.6, 6.4),
    height_ratios=[1.3, 0.9],
    alt="Three drawings: points of eight classes in a plane; a pixel image with a marked patch; a tree from the data "
    "to D outputs and from each output to R replicas.",
) as axes:
    scatter, picture = axes[0]
    markers = ["o", "s", "^", "D", "v", "P", "X", "*"]
    for c, (colour, marker) in enumerate(zip(COLOURS.values(), markers, strict=True)):
        scatter.scatter(*points[labels == c].T, color=colour, marker=marker, s=26, linewidth=0)
        scatter.annotate(f"{c + 1}", 0.45 * centres[c], ha="center", va="center", color=colour, fontweight="bold")
    scatter.set(title="(a) classes", xlabel="$x_1$", ylabel="$x_2$", aspect="equal", xticks=[], yticks=[])
    picture.imshow(1 - image, cmap="gray", vmin=-0.15, vmax=1)
    picture.set_xticks(np.arange(-0.5, len(image)), minor=True)
    picture.set_yticks(np.arange(-0.5, len(image)), minor=True)
    picture.grid(False)
    picture.grid(which="minor", color="#DDDDDD", linewidth=0.4)
    picture.tick_params(which="both", length=0)
    picture.add_patch(Rectangle((9.5, 8.5), PATCH, PATCH, fill=False, edgecolor=COLOURS["red"], linewidth=2.5))
    picture.set(title="(b) an image and a patch", xticks=[], yticks=[])
    spec = axes[1, 0].get_gridspec()
    for unused in axes[1]:
        unused.remove()
    hierarchy = axes[0, 0].figure.add_subplot(spec[1, :])
    graph(
        hierarchy,
        tree,
        [("y", f"y{d}") for d in shown] + [(f"y{d}", f"y{d}{r}") for d in shown for r in "12R"],
        labels=names,
        plain=[node for node in tree if node.startswith("dots")],
        observed=[node for node in tree if len(node) == 3],
        radius=0.3,
    )
    hierarchy.set_title("(c) $D$ outputs with $R$ replicas each")

# %% [markdown]
# ## The same structures as data
#
# `MultiOutputData` is a long table: row $n$ of output $d$ says that a target was observed at a row of one input matrix.
# All three structures fit it. Outputs may have inputs of their own, a missing target is a missing row, and a replica
# number travels with a row.

# %%
several = MultiOutputData.from_list(
    [(points, labels), (points[::2] + 0.1, labels[::2] % 3)], names=["eight classes", "three classes"]
)
images = MultiOutputData.from_arrays(np.stack([image.ravel(), image.T.ravel()]), np.array([0, 1]), names=["character"])

time = np.linspace(0, 1, 12)
genes = pd.concat(
    pd.DataFrame({"time": time, "output": f"gene {d + 1}", "target": np.sin(5 * time + d + 0.2 * r), "replica": r})
    for d in range(3)
    for r in range(4)
    if (d, r) != (2, 3)  # a replica that was never measured
)
hierarchical = MultiOutputData.from_long(genes, inputs=["time"], replica="replica")

pd.DataFrame(
    {
        "outputs D": [d.num_outputs for d in (several, images, hierarchical)],
        "rows of each output": [str(d.sizes) for d in (several, images, hierarchical)],
        "input columns": [d.input_dim for d in (several, images, hierarchical)],
        "replicas of the last output": [
            "–" if (r := d.outputs[-1].replica) is None else len(np.unique(r)) for d in (several, images, hierarchical)
        ],
    },
    index=["(a) classes", "(b) images", "(c) hierarchy"],
)

# %% [markdown]
# The image data have as many input columns as the image has pixels: a plain kernel sees a point in a space of that many
# dimensions. A patch of $w\times h$ pixels has length $E = wh$ and an image of $W\times H$ pixels has
# $P=(W-w+1)(H-h+1)$ of them at stride one. (The thesis, §2.2, calls $E$ the number of patches; it is their length.)

# %%
windows = np.lib.stride_tricks.sliding_window_view(image, (PATCH, PATCH)).reshape(-1, PATCH * PATCH)
pd.Series(
    {
        "patches P, counted": len(windows),
        "patches P, by the formula": (len(image) - PATCH + 1) ** 2,
        "patch length E": windows.shape[1],
    },
    name="value",
).to_frame()

# %% [markdown]
# ## What the thesis does about each
#
# In this book every model of the thesis is one [`SparseMOGP`](../guide/models) with four choices: a prior, inducing
# variables, a posterior and a likelihood. Reading the contributions that way shows what is new in each:
#
# | chapter | structure | model | what changes |
# |---|---|---|---|
# | [2](2-gaussian-processes) | – | GP, SVGP, ICM, LMC | the background |
# | 3 | many classes | MOGPs-AR | the **likelihood**: softmax through Gumbel noise, with a few sampled classes a point |
# | 4 | images | MOCGPs-AR | the **prior's kernel** and the **inducing variables**: weighted sums over patches |
# | 5 | hierarchies | HMOGP-LV | the **prior**: a two-level kernel over replicas times a kernel between latent output coordinates |
#
# Chapters 3 and 4 are also a journal article (Ma and Álvarez, *Machine Learning*, 2023); Chapter 5 is also the HMOGP-LV
# paper {cite}`ma2023hierarchical`.
#
# ### The cost of many classes
#
# Why can the softmax of structure (a) not simply be used? With $D$ outputs of $C_d$ classes there are $C=\sum_d C_d$
# latent functions. The cell below counts, for the largest problem of the thesis (Omniglot: 50 alphabets, 1623
# characters in all), how many function values one data point needs. With $s$ sampled classes the number no longer
# depends on $C$.

# %%
characters, alphabets = 1623, 50
average_classes = characters / alphabets
pd.DataFrame(
    {
        "values a point and output": [average_classes, 1 + 5, 1 + 1],
        "of all classes of the output": [1.0, 6 / average_classes, 2 / average_classes],
    },
    index=["full softmax", "5 sampled classes", "1 sampled class"],
).round(2)

# %% [markdown]
# What the sampling costs in accuracy, and that the published estimator is biased, is a subject of Chapter 3.
#
# ## What the document does not say
#
# The three structures are presented as three problems. They are one: in each, *the covariance between latent functions*
# carries the structure, between classes in (a), between patches in (b), between replicas and outputs in (c). That is
# why one library can hold all three, and why Chapter 2 spends most of its length on the coregionalisation matrix
# $\mathbf B$.

# %% [markdown] tags=["exercise"]
# ### Exercise 1
#
# A hospital measures three vital signs of each of 40 patients. Two of the three were not recorded for some patients.
# What are the outputs, what are the replicas, and what is a missing replica? Build the data set with
# `MultiOutputData.from_long` from made-up numbers in which patient 7 has no third vital sign.

# %% [markdown] tags=["solution"]
# The vital signs are the outputs ($D=3$); the patients are the replicas ($R=40$), because the same three functions of
# time are measured again in each. A missing replica is a pair (patient, vital sign) without rows.

# %% tags=["solution"]
hours = np.arange(6.0)
vital = pd.concat(
    pd.DataFrame({"hour": hours, "output": sign, "target": rng.normal(size=6), "replica": patient})
    for sign in ("pulse", "pressure", "temperature")
    for patient in range(40)
    if (sign, patient) != ("temperature", 7)
)
patients = MultiOutputData.from_long(vital, inputs=["hour"], replica="replica")
{o.name: (len(o), len(np.unique(vital.loc[vital.output == o.name, "replica"]))) for o in patients}

# %% [markdown] tags=["exercise"]
# ### Exercise 2
#
# Shift the glyph of Figure 1.1 by one pixel. How does the squared Euclidean distance between the two images compare
# with the distance between the glyph and an empty image? What does this say about an RBF kernel on pixels?

# %% tags=["solution"]
shifted = np.roll(image, 1, axis=1)
distances = pd.Series(
    {
        "glyph to the glyph moved by one pixel": np.sum((image - shifted) ** 2),
        "glyph to an empty image": np.sum(image**2),
    },
    name="squared distance",
)
distances.to_frame()

# %% [markdown] tags=["solution"]
# The distance to the moved glyph is of the same order as the distance to no glyph at all: to an RBF kernel on pixels, a
# small movement is nearly as bad as the stroke being absent. The patches of the two images, in contrast, are almost the
# same set, which is what a convolutional kernel {cite}`vanderwilk2017conv` compares.

# %%
chapter.finish()
