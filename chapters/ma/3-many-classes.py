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
# # Ma 3: Many classes, several outputs
#
# A softmax over $C$ classes costs $O(C)$ for every data point, and a multi-output GP with a class function for each
# class of each output has many of them. Chapter 3 of C. Ma's thesis {cite}`ma2023thesis` combines the linear model of
# coregionalisation with *augment and reduce* {cite}`ruiz2018augment`: noise variables turn the logarithm of the
# softmax into a sum over classes, and a sum can be sampled. The result is MOGPs-AR. This chapter builds it, tests
# every step of the derivation, and repeats the experiments.
#
# | | |
# |---|---|
# | **Shows** | Algorithm 1, Tables 3.1 and 3.2, Figures 3.1 to 3.7; claims ma-3-c1 to ma-3-c24 |
# | **Adds** | the printed objective is not a bound; its class sub-sampling is biased, and how to do it without bias; where the speed-up of Figure 3.2 comes from; what a matrix $\mathbf B$ can and cannot tell |
# | **Data** | synthetic, generated here; Balance, CNAE-9, Bibtex and UJIIndoorLoc; Mediamill must be downloaded |
# | **Time** | `smoke` half a minute, `quick` about eight minutes on one core; `long` about an hour on two; `paper` has the thesis's sizes |

# %% tags=["parameters"]
profile = "quick"
seed = 0

# %%
import itertools
import time
from functools import cache
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from matplotlib.patches import Patch
from scipy import special, stats

from mogp import MultiOutputData, SparseMOGP, fit
from mogp.book import Chapter
from mogp.book.baselines.expanded import class_by_class
from mogp.data import as_dense
from mogp.experiments import sweep
from mogp.inducing import given_points, kmeans_points
from mogp.kernels import unit_kernels
from mogp.likelihoods import AugmentReduce
from mogp.likelihoods.augment import collapsed_bound, local_bound
from mogp.models import g_a, g_m, mg_m, mogps_ar
from mogp.optimizers import Adam
from mogp.plotting import COLOURS, coregionalisation, hinton
from mogp.posteriors import Full
from mogp.priors import LMC
from mogp.project import data_folder

chapter = Chapter("ma/3", profile=profile, seed=seed)

# %% [markdown]
# The settings below are the whole difference between the profiles. For each data set: `run`, how many of the thesis's
# folds are run; `choose`, in how many of them $Q$ is chosen; the candidates for $Q$; inducing points for each output;
# training steps. `rows` cuts the data, at `smoke` only. `paper` has the thesis's own numbers. The others take fewer
# steps of a larger size.

# %%
settings = chapter.settings(
    smoke=dict(
        two=dict(run=1, inducing=20, steps=1),
        s20=dict(run=1, latents=(3,), inducing=20, steps=1, sampled=(1, 5, 17), sizes=(20, 40)),
        balance=dict(run=1, choose=1, latents=(2,), inducing=10, steps=1),
        cnae9=dict(run=1, choose=1, latents=(9,), inducing=10, steps=1),
        mediamill=dict(run=1, choose=0, latents=(2,), inducing=10, steps=1),
        bibtex=dict(run=1, choose=0, latents=(2,), inducing=10, steps=1),
        uji=dict(run=1, choose=0, latents=(4,), inducing=5, steps=1),
        timing=dict(sampled=(1, 17), inducing=10, steps=1, repeats=1),
        **dict(rate=0.03, draws=20, rows=200, workers=0, eager=True, rule="any"),
    ),
    quick=dict(
        two=dict(run=5, inducing=100, steps=1000),
        s20=dict(run=1, latents=(10,), inducing=100, steps=200, sampled=(1, 5, 9, 13, 17), sizes=(20, 40, 80, 100, 150, 200)),
        balance=dict(run=5, choose=1, latents=(1, 2, 3), inducing=50, steps=500),
        cnae9=dict(run=1, choose=1, latents=(6, 9), inducing=50, steps=120),
        mediamill=dict(run=1, choose=0, latents=(10,), inducing=30, steps=120),
        bibtex=dict(run=1, choose=0, latents=(5,), inducing=50, steps=120),
        uji=dict(run=1, choose=0, latents=(8,), inducing=30, steps=200),
        timing=dict(sampled=(1, 5, 9, 13, 17), inducing=100, steps=5, repeats=3),
        **dict(rate=0.03, draws=200, rows=None, workers=0, eager=False, rule="quick"),
    ),
    long=dict(
        two=dict(run=5, inducing=100, steps=4000),
        s20=dict(run=3, latents=(10,), inducing=100, steps=600, sampled=(1, 5, 9, 13, 17), sizes=(20, 40, 80, 100, 150, 200)),
        balance=dict(run=5, choose=5, latents=(1, 2, 3), inducing=100, steps=1500),
        cnae9=dict(run=2, choose=2, latents=(6, 9), inducing=100, steps=300),
        mediamill=dict(run=1, choose=0, latents=(10,), inducing=100, steps=300),
        bibtex=dict(run=1, choose=0, latents=(10,), inducing=100, steps=400),
        uji=dict(run=2, choose=1, latents=(4, 8, 12), inducing=30, steps=400),
        timing=dict(sampled=(1, 5, 9, 13, 17), inducing=100, steps=20, repeats=3),
        **dict(rate=0.02, draws=500, rows=None, workers=2, eager=False, rule="quick"),
    ),
    paper=dict(
        two=dict(run=5, inducing=100, steps=4000),
        s20=dict(run=5, latents=(10,), inducing=100, steps=4000, sampled=(1, 5, 9, 13, 17), sizes=(20, 40, 80, 100, 150, 200)),
        balance=dict(run=5, choose=5, latents=(1, 2, 3), inducing=100, steps=4000),
        cnae9=dict(run=5, choose=5, latents=(6, 9), inducing=100, steps=4000),
        mediamill=dict(run=5, choose=5, latents=(10, 15, 20), inducing=100, steps=4000),
        bibtex=dict(run=3, choose=3, latents=(5, 10, 15, 20), inducing=100, steps=4000),
        uji=dict(run=3, choose=3, latents=(4, 8, 12), inducing=100, steps=4000),
        timing=dict(sampled=(1, 5, 9, 13, 17), inducing=100, steps=50, repeats=3),
        **dict(rate=0.01, draws=1000, rows=None, workers=None, eager=False, rule="paper"),
    ),
)  # fmt: skip
BATCH = 200
tf.config.run_functions_eagerly(settings.eager)  # for a single step, tracing would cost more than it saves
rng = np.random.default_rng(seed)

# %% [markdown]
# ## The setting (§3.1)
#
# There are $D$ outputs; output $d$ has $C_d$ classes and inputs of its own. Each class has a latent function $f_d^c$,
# and given those at a point, outputs are independent, each with a softmax:
#
# $$p(\mathbf y\mid\mathbf f)=\prod_{d}\prod_{i} \frac{e^{f_d^{y}(\mathbf x_i)}}{\sum_{c=1}^{C_d} e^{f_d^{c}(\mathbf x_i)}},
#   \qquad y = y_d(\mathbf x_i)\in\{1,\dots,C_d\}.$$
#
# In the WiFi data of the last section an output is a building and a class is a floor: three outputs with 4, 4 and 5
# classes, $C=\sum_d C_d=13$ functions. In the next chapter there are up to 1623.
#
# ## Gumbel noise makes the softmax a sum (§3.2.2)
#
# Add independent standard Gumbel noise to every score and take the largest: class $y$ wins with exactly the softmax
# probability. Keep only the noise $\varepsilon$ of the winner and integrate the others out. With density
# $\phi(\varepsilon)=e^{-\varepsilon-e^{-\varepsilon}}$ and distribution function
# $\Phi(\varepsilon)=e^{-e^{-\varepsilon}}$,
#
# $$p(y,\varepsilon\mid\mathbf f)=\phi(\varepsilon)\prod_{c\ne y}\Phi(\varepsilon+f^y-f^c),\qquad
#   \int p(y,\varepsilon\mid\mathbf f)\,d\varepsilon=\int_0^\infty e^{-t\left(1+\sum_{c\ne y} e^{f^c-f^y}\right)}dt
#   =\frac{1}{1+\sum_{c\ne y} e^{f^c-f^y}},$$
#
# by $t=e^{-\varepsilon}$: the softmax. The gain is that $\log p(y,\varepsilon\mid\mathbf f)$ is a *sum over classes*.
# Given $\mathbf f$ the posterior of $\varepsilon$ is again a Gumbel, located at $\log\theta^\star$ with
# $\theta^\star=1+\sum_{c\ne y}e^{f^c-f^y}$; the variational family is $q(\varepsilon)=\mathrm{Gumbel}(\log\theta,1)$
# with one number $\theta$ a point, which gives for every $\theta$
#
# $$\log p(y\mid\mathbf f)\ \ge\ \underbrace{-\frac1\theta\sum_{c\ne y}e^{f^c-f^y}}_{\mathbb E_q\log p(y\mid\varepsilon,\mathbf f)}\ -\
#   \underbrace{\Big(\log\theta+\frac1\theta-1\Big)}_{\mathrm{KL}[q(\varepsilon)\Vert p(\varepsilon)]}
#   \ =\ 1-\log\theta-\frac{1+\sum_{c\ne y}e^{f^c-f^y}}{\theta}.$$
#
# Nothing of this needs to be believed. For 100 random score vectors, by quadrature over $\varepsilon$ (the trapezium
# rule, which for such integrands has no visible error):

# %%
scores = 2.0 * rng.standard_normal((100, 10))
labels = rng.integers(0, 10, 100)
epsilon, h = np.linspace(-8.0, 45.0, 8001, retstep=True)


def gumbel(location=0.0):
    """The density on the grid of noise values, for one or several locations."""
    return np.exp(-(epsilon - location) - np.exp(-(epsilon - location)))


ratios = scores - scores[np.arange(100), labels][:, None]  # f_c - f_y
wrong = np.delete(ratios.ravel(), labels + 10 * np.arange(100)).reshape(100, 9)
joint = gumbel() * np.exp(-np.exp(-epsilon) * np.exp(wrong).sum(1)[:, None])
quadrature_error = np.abs(h * joint.sum(1) - special.softmax(scores, 1)[np.arange(100), labels]).max()

theta = 1.0 + np.exp(wrong).sum(1)
q = gumbel(np.log(theta)[:, None])
log_ratio = -(np.exp(-epsilon) * (theta[:, None] - 1.0)) + np.log(theta)[:, None]  # log q - log p
kl_error = np.abs(h * (q * log_ratio).sum(1) - (np.log(theta) + 1 / theta - 1)).max()

collapsed = collapsed_bound(wrong).numpy()
at_best = np.abs(local_bound(wrong, np.log(theta)).numpy() - collapsed).max()
off = [local_bound(wrong, np.log(theta * factor)).numpy() - collapsed for factor in (0.9, 1.1)]

chapter.claim(
    "ma-3-c1",
    holds=bool(quadrature_error <= 1e-8 and kl_error <= 1e-8 and at_best <= 1e-10 and np.max(off) < 0),
    measured=f"largest error over 100 score vectors: softmax {quadrature_error:.0e}, KL {kl_error:.0e}, bound at θ = 1 + P "
    f"against the collapsed one {at_best:.0e}; at 0.9 θ and 1.1 θ it is lower by {-np.max(off):.4f} or more",
)

# %% [markdown]
# ## The model from its four choices (§3.2.1)
#
# The class functions of all outputs are mixtures of $Q$ latent GPs (an LMC, chapter 2),
#
# $$f_d^c(\mathbf x)=\sum_{q=1}^Q a_{d,c,q}\,u_q(\mathbf x),\qquad u_q\sim\mathcal{GP}(0,k_q),\qquad
#   \mathrm{cov}\big[f_d^c(\mathbf x),f_{d'}^{c'}(\mathbf x')\big]=\sum_q \underbrace{a_{d,c,q}\,a_{d',c',q}}_{\mathbf B_q}\,k_q(\mathbf x,\mathbf x').$$
#
# Rows of $\mathbf A$ are indexed by (output, class). Off-diagonal entries of the coregionalisation matrix $\mathbf
# B_q=\mathbf a_q\mathbf a_q^\top$ couple the classes of one output and the classes of different outputs. Since the
# scale of $\mathbf a_q$ and the variance of $k_q$ are confounded, kernels have unit variance here.
#
# | prior | inducing variables | posterior | likelihood |
# |---|---|---|---|
# | LMC over all class functions | points, a set for each latent GP | full, whitened | softmax by augment and reduce |
#
# This is `mogps_ar`, once in the open, for two outputs with three and five classes:

# %%
X = rng.uniform(-2, 2, (60, 2))
both = MultiOutputData.from_list(
    [(X[:30], rng.integers(0, 3, 30)), (X[30:], rng.integers(0, 5, 30))], names=["first", "second"]
)
Q = 4
model = SparseMOGP(
    prior=LMC(unit_kernels(Q, both.input_dim, lengthscales=1.5), functions=3 + 5, seed=seed),
    inducing=kmeans_points(both, 10, sets=Q, seed=seed),
    posterior=Full(whiten=True),
    likelihood={"first": AugmentReduce(3, negatives=2), "second": AugmentReduce(5, negatives=2)},
)
pd.DataFrame(
    {
        "shape": {
            "A": model.prior.W.shape,
            "B": model.prior.coregionalisation().shape,
            "Z": model.inducing.Z.shape,
            "mean of q(u)": model.posterior.q_mu.shape,
            "scale of q(u)": model.posterior.q_sqrt.shape,
            "class probabilities of the second output": model.predict_y(X, "second")[0].shape,
        }
    }
).map(str)

# %% [markdown]
# ## The bound (§3.2.3)
#
# With $q(\mathbf f,\mathbf u,\boldsymbol\varepsilon)=p(\mathbf f\mid\mathbf u)\prod_q q(\mathbf u_q)\prod_{d,i}
# q(\varepsilon_{d,i})$ the expectation of the last display needs $P_{d,i,c}=\mathbb E_q\,e^{f^c-f^y}$, the mean of a
# log-normal variable. Write $\mathcal P_{d,i}=\sum_{c\ne y}P_{d,i,c}$.
#
# **Form 0** (eq. B.10) keeps $\theta$:
#
# $$\mathcal L(\boldsymbol\theta)=\sum_{d,i}\Big\{1-\log\theta_{d,i}-\frac{1+\mathcal P_{d,i}}{\theta_{d,i}}\Big\}
#   -\sum_q\mathrm{KL}\big[q(\mathbf u_q)\,\Vert\,p(\mathbf u_q)\big].$$
#
# **Form 1** (eq. 3.23) puts in the best one, $\theta_{d,i}=1+\mathcal P_{d,i}$:
#
# $$\mathcal L=-\sum_{d,i}\log(1+\mathcal P_{d,i})-\sum_q\mathrm{KL}\big[q(\mathbf u_q)\,\Vert\,p(\mathbf u_q)\big].$$
#
# Let $m_q,s_q$ be mean and variance of $u_q(\mathbf x_i)$ under $q$. Then $f^c\sim\mathcal N\big(\sum_q a_{c,q}m_q,\
# \sum_q a_{c,q}^2 s_q\big)$, and there are two ways to go on:
#
# | `covariance=` | $\log P_c$ |
# |---|---|
# | `"independent"` (eq. 3.24) | $\mu_c-\mu_y+\tfrac12(v_c+v_y)$, $v_c=\sum_q a_{c,q}^2s_q$ |
# | `"exact"` | $\mu_c-\mu_y+\tfrac12\sum_q(a_{c,q}-a_{y,q})^2s_q$ |
#
# ### Are class functions independent under q?
#
# The first row rests on eqs 3.17 and B.2, which say that the $f_d^c$ are independent under $q$. They share $\mathbf
# u$, so $\mathrm{cov}_q(f^c,f^y)=\sum_q a_ca_ys_q$. On a random model with one latent GP:

# %%
loadings = rng.normal(size=(4, 1))
rank_one = mogps_ar(
    MultiOutputData.from_arrays(X, rng.integers(0, 4, 60)),
    [4],
    latents=1,
    inducing=10,
    W=loadings,
    lengthscale=1.0,
    scaling=None,
)
rank_one.posterior.q_mu.assign(rng.normal(size=(10, 1)))
covariance = rank_one.predict_f(X[:20], full_output_cov=True).var.numpy()
s = covariance[:, 0, 0] / loadings[0, 0] ** 2
formula = s[:, None, None] * (loadings @ loadings.T)
between = np.abs(covariance[:, ~np.eye(4, dtype=bool)])
chapter.claim(
    "ma-3-c2",
    holds=bool(between.max() <= 1e-3),
    measured=f"|cov_q(f_c, f_y)| up to {between.max():.3f} at 20 points; equal to a_c a_y s to {np.abs(covariance - formula).max():.0e}",
    note="The class functions share the inducing variables. Only their marginals are as the thesis states.",
)

# %% [markdown]
# ### A bound that is not a bound
#
# Jensen's inequality gives $-\log(1+\mathcal P)\le\mathbb E_q\log\mathrm{softmax}$ if $\mathcal P$ is the expectation
# under $q$. The variance of a difference is $v_c+v_y-2\,\mathrm{cov}$. Positively correlated functions make the
# independent form needlessly loose; *negatively* correlated ones make it too large. The thesis's own two-class
# example has negative correlation: $\mathbf a=(3.353,-3.453)$. At a point with $m=1$, $s=0.1$:

# %%
nodes, weights = np.polynomial.hermite_e.hermegauss(40)
weights /= weights.sum()


def three_values(A, m, s, label):
    """Independent form, exact form, and E log softmax by quadrature, for A [C, Q], one or two latents N(m, s)."""
    mean, var = A @ m, A**2 @ s
    difference = A - A[label]
    others = np.arange(len(A)) != label
    independent = mean - mean[label] + 0.5 * (var + var[label])
    exact = difference @ m + 0.5 * difference**2 @ s
    grid = np.stack(np.meshgrid(*[nodes] * len(m), indexing="ij"), -1).reshape(-1, len(m))
    weight = np.prod(np.stack(np.meshgrid(*[weights] * len(m), indexing="ij"), -1).reshape(-1, len(m)), axis=1)
    f = (m + np.sqrt(s) * grid) @ A.T
    truth = weight @ special.log_softmax(f, axis=1)[:, label]
    return [float(collapsed_bound(log_terms[others])) for log_terms in (independent, exact)] + [truth]


example = three_values(np.array([[3.353], [-3.453]]), np.array([1.0]), np.array([0.1]), 0)


def random_model():
    C = rng.integers(2, 9)
    return 1.5 * rng.normal(size=(C, 2)), rng.normal(size=2), rng.uniform(0.02, 1.0, 2), rng.integers(C)


cases = np.array([three_values(*random_model()) for _ in range(1000)])
excess = {"independent": cases[:, 0] - cases[:, 2], "exact": cases[:, 1] - cases[:, 2]}
as_expected = bool(np.allclose(example, [-0.00352, -0.01116, -0.00965], atol=1e-4))
chapter.claim(
    "ma-3-c3",
    holds=bool(example[0] <= example[2] and excess["independent"].max() <= 1e-9),
    measured=f"thesis's example: independent {example[0]:.5f}, exact {example[1]:.5f}, E log softmax {example[2]:.5f} "
    f"({'as' if as_expected else 'not as'} expected to 1e-4); 1000 random models: independent form above it in "
    f"{np.mean(excess['independent'] > 1e-6):.0%}, exact form in {np.mean(excess['exact'] > 1e-6):.0%}",
    note="With the true covariance of score differences the bound is restored, at the same cost. It is the library's default.",
)

# %% tags=["hide-input"]
variances = np.geomspace(0.01, 1.0, 30)
along = np.array([three_values(np.array([[3.353], [-3.453]]), np.ones(1), np.full(1, v), 0) for v in variances])
with chapter.figure(
    "ma-finding-independence",
    ncols=2,
    figsize=(9.0, 3.8),
    alt="Left: for the thesis's two-class example the independent form lies above the expected log-softmax over a range of posterior "
    "variances, the exact form below it. Right: cumulative distribution of the excess over 1000 random models; only the independent form "
    "passes zero.",
) as (left, right):
    for column, name, colour in ((0, "independent", "red"), (1, "exact", "blue")):
        left.plot(variances, along[:, column] - along[:, 2], color=COLOURS[colour], label=name)
        right.plot(np.sort(excess[name]), np.arange(1, 1001) / 1000, color=COLOURS[colour])
    left.axhspan(0, 0.1, color=COLOURS["red"], alpha=0.08, lw=0)
    left.axhline(0, color="black", lw=1)
    left.text(0.011, 0.09, "above: not a bound", va="top", color=COLOURS["red"])
    left.set(xscale="log", ylim=(-0.15, 0.1), xlabel="variance $s$ of $u(x)$", title="thesis's example, $m = 1$")
    left.set_ylabel("−log(1 + P) − E log softmax  (nats)")
    right.axvspan(0, 0.1, color=COLOURS["red"], alpha=0.08, lw=0)
    right.axvline(0, color="black", lw=1)
    right.set(
        xlim=(-0.3, 0.1), ylim=(0.7, 1.01), xlabel="−log(1 + P) − E log softmax  (nats)", ylabel="share of models"
    )
    right.set_title("1000 random models, the upper end")
    left.figure.legend(title="class functions taken as", loc="outside lower center", ncols=2)

# %%
over = {name: np.mean(gap > 1e-6) for name, gap in excess.items()}
chapter.claim(
    "ma-3-f1",
    holds=bool(over["independent"] >= 0.01 and over["exact"] == 0),
    measured=f"independent form above E log softmax in {over['independent']:.1%} of 1000 random models, by up to "
    f"{excess['independent'].max():.2f} nats; exact form in {over['exact']:.1%} (closest {excess['exact'].max():.4f})",
)

# %% [markdown]
# ## Algorithm 1: a doubly stochastic step (§3.2.4)
#
# The sum over data is estimated on a mini-batch $\mathcal B_d$, the sum over classes on $s$ *negatives* $\mathcal
# S_{d,i}$, wrong classes drawn uniformly without replacement, anew for every point at every step:
#
# $$\widetilde{\mathcal L}=-\sum_{d}\frac{N_d}{|\mathcal B_d|}\sum_{i\in\mathcal B_d}\log\Big(1+\frac{C_d-1}{s}\sum_{c\in\mathcal S_{d,i}}P_{d,i,c}\Big)
#   -\sum_q\mathrm{KL}\big[q(\mathbf u_q)\,\Vert\,p(\mathbf u_q)\big].$$
#
# (Eq. 3.28 has $K-1$ with an undefined $K$ for $C_d-1$, and counts the true class among the samples in some places
# and not in others. Here MOGPs-AR($s$) has $s$ negatives.) One step:
#
# 1. for each output $d$ take $|\mathcal B|$ rows, and for each row $s$ classes from $\{1..C_d\}\setminus\{y\}$;
# 2. one pass over the latent GPs: $m_q(\mathbf x_i)$, $s_q(\mathbf x_i)$ for all rows, $O(|\mathcal B|QM^2)$;
# 3. mix them with the rows of $\mathbf A$ that were drawn, $O(|\mathcal B|sQ)$: the $\log P_{d,i,c}$;
# 4. $\widetilde{\mathcal L}$, its gradient, one step of Adam on $\mathbf Z,\mathbf A$, the lengthscales and
#    $q(\mathbf u)$.
#
# What the sampler of the library draws, inside a compiled graph, for eight rows of two outputs with different numbers
# of classes:

# %%
classes_of, negatives = {"output 1": 6, "output 2": 14}, 3
shown = {name: rng.integers(0, C, 8) for name, C in classes_of.items()}
samplers = {name: tf.function(AugmentReduce(C, negatives, seed=seed).draw_negatives) for name, C in classes_of.items()}
drawn = {name: samplers[name](tf.constant(labels)).numpy() for name, labels in shown.items()}

# %% tags=["hide-input"]
with chapter.figure(
    "ma-alg-1",
    ncols=2,
    figsize=(8.4, 3.6),
    width_ratios=[6, 14],
    alt="Two grids of rows against classes: each row has its label and three sampled wrong classes marked, all other classes "
    "are left out.",
) as axes:
    for ax, (name, C) in zip(axes, classes_of.items(), strict=True):
        cells = np.zeros((8, C))
        cells[np.arange(8)[:, None], drawn[name]] = 1
        cells[np.arange(8), shown[name]] = 2
        palette = ["#EDEDED", COLOURS["orange"], COLOURS["blue"]]
        ax.imshow(cells, cmap=plt.matplotlib.colors.ListedColormap(palette), vmin=0, vmax=2, aspect="auto")
        ax.set_xticks(np.arange(C + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(9) - 0.5, minor=True)
        ax.grid(which="minor", color="white", lw=2)
        ax.grid(False, which="major")
        ax.tick_params(which="both", length=0)
        ax.set(xticks=range(0, C, 2), yticks=[], xlabel="class", title=f"{name}: {C} classes")
    axes[0].set_ylabel("row of the mini-batch")
    kinds = [Patch(color=c) for c in palette[::-1]]
    names = ["label", "sampled negative", "not evaluated"]
    axes[0].figure.legend(kinds, names, loc="outside lower center", ncols=3)

# %% [markdown]
# ### Sampling classes is biased (eq. 3.28)
#
# The thesis calls the gradient of $\widetilde{\mathcal L}$ unbiased. Over data it is: the sum over rows stands
# outside of everything. The sum over classes stands *inside a logarithm*, and $-\log$ is convex: $\mathbb
# E\,\widetilde{\mathcal L}\ge\mathcal L$. Both statements can be settled by enumerating every subset. Take $C=8$
# classes with unequal terms, and six data points:

# %%
C = 8
log_terms = np.log(np.geomspace(0.05, 9.0, C - 1))
full = float(collapsed_bound(log_terms))
theta_kept = 10.0  # any stored value will do
full_local = float(local_bound(log_terms, np.log(theta_kept)))


def mean_over_subsets(bound, s):
    subsets = np.array(list(itertools.combinations(log_terms, s)))
    return float(tf.reduce_mean(bound(subsets, scale=(C - 1) / s)))


by_s = pd.DataFrame(
    {
        "collapsed (eq. 3.28)": {s: mean_over_subsets(collapsed_bound, s) for s in range(1, C)},
        "stored θ": {
            s: mean_over_subsets(lambda P, scale: local_bound(P, np.log(theta_kept), scale), s) for s in range(1, C)
        },
    }
).rename_axis("s")
gap = by_s["collapsed (eq. 3.28)"] - full
gap_local = (by_s["stored θ"] - full_local).abs()

row_terms = collapsed_bound(rng.normal(size=(6, C - 1))).numpy()
batches = [
    6 / b * np.mean([row_terms[list(k)].sum() for k in itertools.combinations(range(6), b)]) for b in range(1, 7)
]
over_data = np.abs(np.array(batches) - row_terms.sum()).max()
chapter.claim(
    "ma-3-c4",
    holds=bool(over_data <= 1e-10 and np.abs(gap).max() <= 1e-10),
    measured=f"over data batches exact to {over_data:.0e}; over class subsets too large by {gap[1]:.3f} (s = 1), {gap[3]:.3f} (3), "
    f"{gap[6]:.3f} (6), {abs(gap[7]):.0e} (7) at a full value of {full:.3f}",
    note="True for data points, false for classes: the class sum is inside a logarithm.",
)

# %% [markdown]
# The remedy is Form 0, as in {cite}`ruiz2018augment`: keep a $\theta_{d,i}$ for every data point, update it before
# the step, and hold it fixed in the gradient. The data term is then linear in $\mathcal P$, and sampling classes is
# unbiased. In the library, `theta="local"`.

# %% tags=["hide-input"]
with chapter.figure(
    "ma-finding-subsampling",
    figsize=(7.2, 3.4),
    alt="Mean over all subsets minus the full value against the number of sampled classes: the collapsed form starts high and "
    "falls to zero at seven, the form with stored theta is zero throughout.",
) as ax:
    ax.axhline(0, color="black", lw=1)
    ax.plot(gap.index, gap, "o-", color=COLOURS["red"], label="collapsed (eq. 3.28)")
    ax.plot(gap.index, by_s["stored θ"] - full_local, "s-", color=COLOURS["blue"], label="stored θ (Form 0)")
    ax.set(
        xlabel="sampled wrong classes s, of 7", ylabel="bias (nats)", title="mean over all subsets − full value, C = 8"
    )
    ax.legend()

# %%
chapter.claim(
    "ma-3-f2",
    holds=bool(
        gap_local.max() <= 1e-10 and (gap[:-1] > 0).all() and (np.diff(gap) < 0).all() and abs(gap[C - 1]) <= 1e-10
    ),
    measured="collapsed: "
    + ", ".join(f"{v:.3f}" for v in by_s["collapsed (eq. 3.28)"])
    + f" for s = 1…7, full {full:.3f}; "
    f"stored θ: within {gap_local.max():.0e} of its full value for every s",
)

# %% [markdown]
# ### When the multi-output model is the single-output one
#
# The baselines of the chapter have an independent GP for each class of one output: **G-A** with the augmented
# softmax, **G-M** with Monte Carlo. **MG-M** is the multi-output model with Monte Carlo over all classes
# {cite}`moreno2018het`. The thesis notes that they coincide for one class, $Q=1$ and $\mathbf B=1$, where there is
# nothing to classify. A case with content: one output, $Q=C$ and $\mathbf A=\mathbf I$.

# %%
three = MultiOutputData.from_arrays(X, rng.integers(0, 3, 60), names=["class"])
Z = kmeans_points(three, 8, seed=seed).Z.numpy()
many = dict(latents=3, inducing=given_points(Z, 3), W=np.eye(3), lengthscale=1.0, seed=seed)
single = dict(inducing=given_points(Z), lengthscale=1.0, seed=seed)
pairs = {
    "augmented": (
        mogps_ar(
            three,
            [3],
            negatives=None,
            **many,
            scaling=None,
        ),
        g_a(three, [3], **single, scaling=None),
    ),
    "Monte Carlo": (
        mg_m(three, [3], **many, scaling=None),
        g_m(
            three,
            [3],
            **single,
            scaling=None,
        ),
    ),
}
q_mu, q_sqrt = rng.normal(size=(8, 3)), np.tril(0.3 * rng.normal(size=(3, 8, 8))) + 0.5 * np.eye(8)
values = {}
for name, pair in pairs.items():
    for one in pair:
        one.posterior.q_mu.assign(q_mu)
        one.posterior.q_sqrt.assign(q_sqrt)
    values[name] = [float(one.elbo(three)) for one in pair]
apart = {name: abs(a - b) for name, (a, b) in values.items()}
chapter.claim(
    "ma-3-c5",
    holds=bool(max(apart.values()) <= 1e-8),
    measured=f"MOGPs-AR {values['augmented'][0]:.6f}, G-A {values['augmented'][1]:.6f} (apart {apart['augmented']:.0e}); MG-M "
    f"{values['Monte Carlo'][0]:.6f}, G-M {values['Monte Carlo'][1]:.6f} (apart {apart['Monte Carlo']:.0e}, same noise)",
)

# %% [markdown]
# ## One function for all experiments
#
# One fold of one model on one data set. Folds are stratified and shuffled (the thesis's code does not shuffle);
# Bibtex has published splits. `inner=True` holds out a fifth of the *training* rows instead, which is how $Q$ is
# chosen: by weighted recall there (which is the accuracy). Two choices of start values: **ours** (median distance,
# k-means, rows of $\mathbf A$ of unit length) and the **thesis**'s code (lengthscale 1, first $M$ rows of each
# output, $\mathbf A$ uniform on $[0,1]$).
#
# The published single-output baselines have a slip: their mini-batch data term is not multiplied by $N/|\mathcal B|$,
# so the KL weighs $N/|\mathcal B|$ times too much. We run both, *as published* and correct.


# %%
def run(data, source, model, fold, folds, latents, negatives, inducing, steps, rate, draws, rows, seed, start="ours",
        covariance="exact", lengthscale=None, inner=False, scaling="as loaded"):  # fmt: skip
    import warnings

    import numpy as np

    from mogp import MultiOutputData, datasets, fit, metrics
    from mogp.inducing import given_points
    from mogp.models import g_a, g_m, mg_m, mogps_ar
    from mogp.optimizers import Adam

    def scaled_by_training(train, test, names):
        """Mean and deviation of the training rows of each output; a column that does not vary there is zero."""
        parts = {"train": [], "test": []}
        for n in names:
            mean, sd = train.inputs(n).mean(axis=0), train.inputs(n).std(axis=0)
            scale = np.divide(1.0, sd, out=np.zeros_like(sd), where=np.ptp(train.inputs(n), axis=0) > 0)
            parts["train"].append(((train.inputs(n) - mean) * scale, train[n].Y))
            parts["test"].append(((test.inputs(n) - mean) * scale, test[n].Y))
        return (MultiOutputData.from_list(part, names=names) for part in parts.values())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.StandInWarning)
        stand_in = "only" if source == "stand-in" else "forbid"
        own = {"split": fold} if data == "bibtex-single" else {}
        own |= {"standardise": False} if scaling == "training rows" else {}
        whole = datasets.load(data, stand_in=stand_in, **own)
    published_split = whole.held_out is not None
    train, test = (whole.train, whole.test) if published_split else list(whole.folds(folds, seed=seed))[fold]
    if inner:
        train, test = train.split(0.2, seed=seed)
    if rows is not None:
        train, test = (part.take(np.random.default_rng(seed).permutation(len(part))[:rows]) for part in (train, test))
    # The words of Bibtex stay a sparse matrix.
    train, test, names = train.data, test.data, whole.outputs
    if scaling == "training rows":
        train, test = scaled_by_training(train, test, names)
    kind, as_published = model.removesuffix(", as published"), model.endswith("as published")
    together = kind in ("MOGPs-AR", "MG-M")

    scores, kept = {"precision": [], "recall": [], "f1": [], "trained": []}, {}
    for group in [names] if together else [(name,) for name in names]:
        own = MultiOutputData.from_list([(train.inputs(n), train[n].Y) for n in group], names=group)
        classes = {n: len(whole.classes[n]) for n in group}
        sets, options = (latents, {"latents": latents}) if together else (None, {})
        options |= {"inducing": inducing * len(group), "lengthscale": lengthscale, "seed": seed}
        if start == "thesis":
            Z = np.concatenate([as_dense(own.inputs(n)[:inducing]) for n in group])
            options |= {"inducing": given_points(Z, sets), "lengthscale": 1.0}
        if start in ("thesis", "uniform A") and together:
            options["W"] = np.random.default_rng(seed).uniform(size=(sum(classes.values()), latents))
        options |= {"MOGPs-AR": {"negatives": negatives, "covariance": covariance}}.get(kind, {})
        if as_published:
            options["kl_weight"] = max(1.0, own.X.shape[0] / 200)
        build = {"MOGPs-AR": mogps_ar, "MG-M": mg_m, "G-A": g_a, "G-M": g_m}[kind]
        fitted = build(own, classes, **options, scaling=None, start="plain")
        history = fit(fitted, own, steps=steps, optimizer=Adam(rate), batch_size=200, seed=seed, progress=False)
        scores["trained"].append(history.steps)
        for n, likelihood in zip(group, fitted.likelihood.likelihoods, strict=True):
            likelihood.prediction_samples = draws
            label, guess = test[n].Y[:, 0], fitted.predict_classes(test.inputs(n), n)
            scores["precision"].append(metrics.weighted_precision(label, guess))
            scores["recall"].append(metrics.weighted_recall(label, guess))
            scores["f1"].append(metrics.weighted_f1(label, guess))
        if together:
            kept = {"A": fitted.prior.W.numpy(), "coupling": fitted.global_coregionalisation()}
    return {name: np.array(values) for name, values in scores.items()} | kept


common = dict(rate=settings.rate, draws=settings.draws, rows=settings.rows, seed=seed)


@cache
def source_of(name):
    """Where a data set comes from on this machine: part of what identifies a run."""
    return chapter.load(name).source


def runs(points, **shared):
    """A table of runs; finished ones are kept in the build folder and not run again."""
    points = [{**common, **shared, **point} for point in points]
    points = [{**point, "source": source_of(point["data"])} for point in points]
    return sweep(run, points, workers=settings.workers, progress=False, name="ma-3")


# %% [markdown]
# ## E3.1: can B be recovered? (§3.3.1)
#
# Two classes on $[-10,10]$ with class functions $f_c=a_cu$, $\mathbf B=\mathbf a\mathbf a^\top$ of rank one,
# lengthscale 0.1: the label is the sign of $u$.

# %%
two = chapter.load("ma-two-class", seed=seed)
x, f = two.X[:, 0], two.extras["f"]

# %% tags=["hide-input"]
with chapter.figure(
    "ma-fig-3-1",
    nrows=2,
    figsize=(8.4, 4.6),
    sharex=True,
    data=two,
    alt="Above: two mirrored, quickly varying functions of x. Below: the label jumps between one and zero where they cross.",
) as axes:
    axes[0].plot(x, f[:, 0], lw=1, label="$f_1$")
    axes[0].plot(x, f[:, 1], lw=1, label="$f_2$")
    axes[0].set(ylabel="class functions", title="class functions (left panel in the thesis)")
    axes[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes[1].plot(x, 1 - two.Y[:, 0], ".", ms=3)
    axes[1].set(xlabel="$x$", ylabel="label", yticks=[0, 1], yticklabels=["class two", "class one"])
    axes[1].set_title("labels (right panel in the thesis)")

# %% [markdown]
# The fit has $Q=1$ and, as in the thesis, the independent form of the objective. Five folds; the matrices printed in
# the thesis beside ours.

# %%
published = pd.read_csv(data_folder() / "published" / "ma-table-3-2.csv").set_index("fold")
truth = two.extras["B"]
two_class = dict(
    data="ma-two-class", model="MOGPs-AR", folds=5, latents=1, negatives=1, start="uniform A", lengthscale=0.1
)
fits = runs(
    [dict(fold=k) for k in range(settings.two["run"])],
    **two_class,
    covariance="independent",
    inducing=settings.two["inducing"],
    steps=settings.two["steps"],
)
B = np.array([A @ A.T for A in fits["A"]])
recovered = pd.DataFrame(
    {"B11": B[:, 0, 0], "B12": B[:, 0, 1], "B22": B[:, 1, 1], "recall": [r[0] for r in fits["recall"]]},
    index=published.index[: len(B)],
)
chapter.table(
    "ma-table-3-2",
    pd.concat({"thesis": published, "here": recovered}, axis=1)
    .pipe(lambda t: t.set_axis([f"{name}, {where}" for where, name in t.columns], axis=1))
    .map(lambda v: "" if np.isnan(v) else f"{v:.4g}")
    .reset_index(),
    data=two,
)

# %%
determinants = (published["B11"] * published["B22"] - published["B12"] ** 2).abs() / (
    published["B11"] * published["B22"]
)
printed_rank_one = bool((determinants < 1e-6).all())
correlation = recovered["B12"].abs() / np.sqrt(recovered["B11"] * recovered["B22"])
ratio = recovered["B22"] / recovered["B11"]
pattern = bool(
    (recovered["B12"] < 0).all()
    and ((correlation - 1).abs() <= 1e-6).all()
    and ((ratio / 1.060 - 1).abs() <= 0.15).all()
)
chapter.claim(
    "ma-3-c7",
    holds=bool(printed_rank_one and (pattern or settings.rule == "any")),
    measured=f"printed matrices: |det|/(B11 B22) at most {determinants.max():.0e}; here, {settings.two['steps']} steps: B12 < 0 in "
    f"{(recovered['B12'] < 0).sum()} of {len(B)} folds, B22/B11 from {ratio.min():.3f} to {ratio.max():.3f}",
    note="Rank one is built into the model, so |B12| = √(B11 B22) always. See the next section for the rest.",
)

# %%
chapter.claim(
    "ma-3-c8",
    holds=bool(recovered["recall"].min() >= 0.98 and 0.985 <= recovered["recall"].mean() <= 1.0),
    measured=f"recall {recovered['recall'].min():.4f} to {recovered['recall'].max():.4f}, mean {recovered['recall'].mean():.4f} over "
    f"{len(B)} folds with M = {settings.two['inducing']} after {settings.two['steps']} steps",
    note="M = 100 inducing points lie two lengthscales apart; see the ceiling below.",
)

# %%
distance = np.sqrt(
    (published["B11"] - truth[0, 0]) ** 2
    + 2 * (published["B12"] - truth[0, 1]) ** 2
    + (published["B22"] - truth[1, 1]) ** 2
)
chapter.claim(
    "ma-3-c9",
    holds=bool(distance.idxmin() == 2),
    measured="Frobenius distances of the printed matrices: " + ", ".join(f"{d:.2f}" for d in distance),
    note="Checked on the printed table.",
)

# %% [markdown]
# ### What limits the recall
#
# $u$ has lengthscale 0.1 on a range of 20; by Rice's formula it changes sign about $20/(0.1\pi)\approx64$ times. How
# well can $M$ inducing points follow it? If $u(Z)$ were known *exactly* at $M$ equally spaced points, the correlation
# of $u(x)$ with its prediction would be $\rho(x)=\sqrt{\mathbf k_{xZ}\mathbf K_{ZZ}^{-1}\mathbf k_{Zx}}$, and the
# sign would be predicted wrongly with probability $\arccos(\rho)/\pi$. Beside it, what interpolation by the nearest
# training label gives:


# %%
def ceiling(M):
    """Expected recall when u is known exactly at M equally spaced points and nowhere else."""
    Z = np.linspace(-10, 10, M)
    K = np.exp(-0.5 * (Z[:, None] - Z) ** 2 / 0.1**2) + 1e-8 * np.eye(M)
    k = np.exp(-0.5 * (x[:, None] - Z) ** 2 / 0.1**2)
    rho = np.sqrt(np.clip(np.einsum("nm,mn->n", k, np.linalg.solve(K, k.T)), 0, 1))
    return 1 - np.mean(np.arccos(rho)) / np.pi


def nearest_neighbour(train, test):
    nearest = np.abs(test.X - train.X[:, 0]).argmin(1)
    return np.mean(train.Y[nearest] == test.Y)


neighbour = np.mean([nearest_neighbour(*fold) for fold in two.folds(5, seed=seed)])
pd.DataFrame(
    {
        "recall": {
            **{f"u known exactly at M = {M} equally spaced points": f"{ceiling(M):.3f}" for M in (50, 100, 150, 200)},
            "label of the nearest training point, five folds": f"{neighbour:.3f}",
        }
    }
)

# %% [markdown]
# Equally spaced points at $M=100$ are not enough for the recalls of the printed table. Training may move $Z$ to where
# the sign changes and then does better than this ceiling, but slowly. The last row is what the spacing of the data
# allows a rule without a model. Draws of $u$ differ in their sign changes, and the thesis does not say how its inputs
# were spread, so its own problem may have been easier.
#
# ### Is there anything to recover?
#
# A constant added to all class functions leaves the softmax alone. With $f_c=a_cu$ that is $a_c\to a_c+\delta$: *only
# the difference $a_1-a_2$ is in the likelihood*. The exact bound knows this; the independent form does not, and
# prefers $a_1=-a_2$ through its variance term. The pattern "equal magnitudes, opposite sign" is put there by the
# approximation. The same model from two starts, under both:

# %%
starts = [(0.2, 0.9), (1.5, 0.5)]


def trained_loadings(start, covariance):
    model = mogps_ar(
        two.data,
        [2],
        latents=1,
        inducing=settings.two["inducing"],
        negatives=1,
        covariance=covariance,
        W=np.array(start)[:, None],
        lengthscale=0.1,
        scaling=None,
    )
    steps = max(1, settings.two["steps"] // 4)
    fit(model, two.data, steps=steps, optimizer=Adam(0.03), batch_size=BATCH, seed=seed, progress=False)
    return model.prior.W.numpy()[:, 0]


found = {
    (covariance, str(start)): trained_loadings(start, covariance)
    for covariance in ("independent", "exact")
    for start in starts
}
pd.DataFrame(
    [
        {
            "covariance": covariance,
            "start (a₁, a₂)": start,
            "a₁ + a₂": f"{a.sum():.3f}",
            "|a₁ − a₂|": f"{abs(a[0] - a[1]):.2f}",
            "B12": f"{a.prod():.2f}",
            "B22 / B11": f"{(a[1] / a[0]) ** 2:.2f}",
        }
        for (covariance, start), a in found.items()
    ]
)

# %% [markdown]
# Under the exact bound the sum $a_1+a_2$ stays exactly where it started: its gradient is zero. Only $\mathbf B$ up to
# a shared column can be read off a fit, and that goes for every coregionalisation matrix between classes of one
# output (exercise 3).
#
# ## E3.2: time and classes on S-20 (§3.3.2)
#
# Twenty classes in five dimensions. The thesis's code makes a column of $\mathbf K_{uf}$ for every class at every
# row, whether the classes are all (MG-M) or sampled. That costs $O(C|\mathcal B|QM^2)$ and $O(s|\mathcal B|QM^2)$.
# Counted on the tensors that the class-expanded code of the library makes:

# %%
s20 = chapter.load("s20")


def expanded_elements(model, batch):
    """Entries of the largest cross-covariance that is projected when the bound is evaluated."""
    sizes, project = [], Full.project
    with mock.patch.object(
        Full,
        "project",
        lambda self, factors, Kuf, Kff: sizes.append(int(tf.size(Kuf))) or project(self, factors, Kuf, Kff),
    ):
        model.elbo(batch)
    return max(sizes)


def element_ratio(C, s):
    data = MultiOutputData.from_arrays(rng.normal(size=(40, 2)), rng.integers(0, C, 40))
    shared = dict(latents=2, inducing=5, covariance="independent", lengthscale=1.0)
    batch = data.batches(20)(0)
    sampled = expanded_elements(
        class_by_class(mogps_ar(data, [C], negatives=s, **shared, scaling=None)),
        batch,
    )
    return sampled / expanded_elements(
        class_by_class(mg_m(data, [C], samples=2, **shared, scaling=None)),
        batch,
    )


counted = {s: element_ratio(20, s) for s in (1, 5, 17)}

# %% [markdown]
# None of this is necessary. All class functions at a row are mixtures of the same $Q$ numbers $u_q(\mathbf x)$:
# project *those*, then mix. The class factor disappears from the $M^2$ term:
#
# | path | time of a step | memory |
# |---|---|---|
# | class-expanded, all classes (MG-M in the thesis) | $O(QM^3+C\lvert\mathcal B\rvert QM^2)$ | $O(QM^2+C\lvert\mathcal B\rvert QM)$ |
# | class-expanded, sampled (MOGPs-AR in the thesis) | $O(QM^3+Ds\lvert\mathcal B\rvert QM^2)$ | $O(QM^2+Ds\lvert\mathcal B\rvert QM)$ |
# | mixing (this library) | $O(QM^3+D\lvert\mathcal B\rvert QM^2+Ds\lvert\mathcal B\rvert Q)$ | $O(QM^2+D\lvert\mathcal B\rvert QM+CQ)$ |
#
# So the timing figure has to say which path it shows. Both, one model at a time in this process, $Q=10$, $|\mathcal
# B|=200$; processor time, so that what else the machine does is not in it; the median of three runs:


# %%
def step_seconds(model):
    """Processor seconds of a training step, the median of a few runs."""
    optimizer, source = Adam(0.01), s20.data.batches(BATCH, seed=seed)
    optimizer.start(model)

    @tf.function(autograph=False)
    def one(step):
        return optimizer.step(model, lambda: model.training_loss(source(step)))

    one(tf.constant(0, tf.int64))
    runs = []
    for _ in range(settings.timing["repeats"]):
        begun = time.process_time()
        for step in range(settings.timing["steps"]):
            one(tf.constant(step, tf.int64)).numpy()
        runs.append((time.process_time() - begun) / settings.timing["steps"])
    return np.median(runs)


sampled = settings.timing["sampled"]
centres = kmeans_points(s20.data, settings.timing["inducing"], seed=seed).Z.numpy()


def timed(build, expanded, **options):
    shared = dict(latents=10, inducing=given_points(centres, 10), covariance="independent", lengthscale=1.0)
    model = build(s20.data, [20], **shared, **options, scaling=None)
    return step_seconds(class_by_class(model) if expanded else model)


seconds = pd.DataFrame(
    {
        path: {**{f"AR({s})": timed(mogps_ar, way, negatives=s) for s in sampled}, "MG-M": timed(mg_m, way)}
        for path, way in (("class-expanded", True), ("mixing", False))
    }
)
(1000 * seconds).map("{:.1f} ms".format).rename_axis("a training step")

# %%
expanded = seconds["class-expanded"]
of_s = expanded[[f"AR({s})" for s in sampled]]
line = stats.linregress(sampled, of_s)
exact_counts = all(abs(counted[s] - (s + 1) / 20) < 1e-12 for s in counted)
chapter.claim(
    "ma-3-c6",
    holds=bool(exact_counts and (line.rvalue**2 >= 0.9 or settings.rule == "any")),
    measured="elements against MG-M: " + ", ".join(f"{r:.2f} (s = {s})" for s, r in counted.items()) + f"; step time "
    f"linear in s with R² = {line.rvalue**2:.3f} over {len(sampled)} values",
    note="With the mixing path the class factor disappears from the dominant term altogether.",
)

# %%
mixing = seconds["mixing"]
faster = bool((mixing < expanded).all())
with chapter.figure(
    "ma-finding-mixing",
    figsize=(7.2, 3.6),
    data=s20,
    alt="Milliseconds of a training step for each model: class-expanded times rise steeply with the sampled classes, times of the "
    "mixing path are low and nearly level.",
) as ax:
    (1000 * seconds).plot.bar(ax=ax, color=[COLOURS["orange"], COLOURS["blue"]], width=0.8, rot=0)
    ax.set(ylabel="a training step (ms)", title="S-20: 20 classes, $Q$ = 10, $|B|$ = 200")
    ax.legend(title="evaluation", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.grid(axis="x", visible=False)

chapter.claim(
    "ma-3-f3",
    holds=bool(mixing["AR(1)"] / mixing["MG-M"] >= 0.5 and faster),
    measured=f"AR(1)/MG-M: {mixing['AR(1)'] / mixing['MG-M']:.2f} mixing, {expanded['AR(1)'] / expanded['MG-M']:.2f} class-expanded; "
    f"mixing is {(expanded / mixing).min():.1f} to {(expanded / mixing).max():.1f} times faster",
)

# %% [markdown]
# The right half of the figure is about accuracy: how many negatives does it take? The same runs, with further sizes
# of the inducing set, give the next figure.

# %%
points = settings.s20
shared = dict(data="s20", folds=5, steps=points["steps"], latents=points["latents"][0])
by_sampled = [dict(model="MOGPs-AR", negatives=s, inducing=points["inducing"]) for s in points["sampled"]]
by_size = [dict(model="MOGPs-AR", negatives=5, inducing=M) for M in points["sizes"]]
whole_model = [dict(model="MG-M", negatives=0, inducing=points["inducing"])]
table = runs([{**p, "fold": k} for p in by_sampled + by_size + whole_model for k in range(points["run"])], **shared)
table["recall"] = [r[0] for r in table["recall"]]
accuracy = (
    table.drop_duplicates(["model", "negatives", "inducing", "fold"])
    .groupby(["model", "negatives", "inducing"])["recall"]
    .agg(["mean", "std"])
    .fillna(0.0)
)
at_s = accuracy.loc["MOGPs-AR"].xs(points["inducing"], level="inducing").loc[list(points["sampled"])]
full_model = accuracy.loc[("MG-M", 0, points["inducing"])]
by_size_of_set = accuracy.loc[("MOGPs-AR", 5)].loc[list(points["sizes"])]

# %% tags=["hide-input"]
with chapter.figure(
    "ma-fig-3-2",
    ncols=2,
    figsize=(9.0, 3.8),
    data=s20,
    alt="Left: seconds of 4000 training steps against sampled classes, class-expanded and mixing, with MG-M as horizontal lines. Right: "
    "weighted recall against sampled classes with MG-M as a horizontal line.",
) as (left, right):
    for path, colour in (("class-expanded", "orange"), ("mixing", "blue")):
        total = 4000 * seconds[path]
        left.plot(sampled, total[:-1], "o-", color=COLOURS[colour], label=f"AR(s), {path}")
        left.axhline(total["MG-M"], ls="--", color=COLOURS[colour], label=f"MG-M, {path}")
    left.set(xlabel="sampled classes s", ylabel="4000 steps (processor s)", yscale="log", title="time", xticks=sampled)
    right.errorbar(at_s.index, at_s["mean"], at_s["std"], fmt="o-", capsize=3, color=COLOURS["blue"], label="AR(s)")
    right.axhline(full_model["mean"], ls="--", color=COLOURS["grey"], label="MG-M")
    right.set(
        xlabel="sampled classes s",
        ylabel="weighted recall",
        title=f"{points['steps']} steps, {points['run']} of 5 folds",
    )
    right.legend(loc="lower right")
    left.figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)

# %%
rank = stats.spearmanr(sampled, of_s).statistic
share = expanded["AR(1)"] / expanded["MG-M"]
bounds = (0.10, 0.25) if settings.rule == "paper" else (0.08, 0.40)
chapter.claim(
    "ma-3-c10",
    holds=bool(bounds[0] <= share <= bounds[1] and rank >= 0.9 - 1e-9 and of_s.iloc[-1] < expanded["MG-M"]),
    measured=f"class-expanded: AR(1)/MG-M {share:.2f}, Spearman correlation of time with s {rank:.2f}, AR(17)/MG-M "
    f"{of_s.iloc[-1] / expanded['MG-M']:.2f}; mixing path: AR(1)/MG-M {mixing['AR(1)'] / mixing['MG-M']:.2f}",
    note="A statement about the class-expanded code only. AR(17) evaluates 18 of the 20 classes, so short timings may not tell it "
    "from MG-M.",
)

# %%
close = abs(at_s.loc[5, "mean"] - full_model["mean"])
chapter.claim(
    "ma-3-c11",
    holds=bool(
        close <= 0.03 and at_s.loc[17, "mean"] >= full_model["mean"] - 0.02
        if settings.rule == "paper"
        else close <= 0.05 and at_s.loc[17, "mean"] >= at_s.loc[1, "mean"] - 0.01
    ),
    measured="recall "
    + ", ".join(f"{row['mean']:.3f} (s = {s})" for s, row in at_s.iterrows())
    + f", MG-M {full_model['mean']:.3f}; "
    f"{points['run']} of 5 folds, {points['steps']} steps",
)

# %% [markdown]
# ## E3.3: how many inducing points? (Figure 3.3)

# %% tags=["hide-input"]
with chapter.figure(
    "ma-fig-3-3",
    figsize=(7.2, 3.4),
    data=s20,
    alt="Weighted recall of MOGPs-AR(5) on S-20 against the number of inducing points.",
) as ax:
    ax.errorbar(by_size_of_set.index, by_size_of_set["mean"], by_size_of_set["std"], fmt="o-", capsize=3)
    low, high = by_size_of_set["mean"].min(), by_size_of_set["mean"].max()
    ax.set(
        xlabel="inducing points M", ylabel="weighted recall", ylim=(low - 0.1, high + 0.1), title="MOGPs-AR(5) on S-20"
    )

# %%
spread = by_size_of_set["mean"].max() - by_size_of_set["mean"].min()
chapter.claim(
    "ma-3-c12",
    holds=bool(
        spread <= 0.05
        and (settings.rule != "paper" or by_size_of_set["mean"].max() - by_size_of_set["mean"][40] <= 0.02)
    ),
    measured=f"recall from {by_size_of_set['mean'].min():.3f} (M = {by_size_of_set['mean'].idxmin()}) to {by_size_of_set['mean'].max():.3f} (M = "
    f"{by_size_of_set['mean'].idxmax()}), range {spread:.3f}; {points['run']} of 5 folds, {points['steps']} steps",
    note="The location of the maximum is not expected to reproduce.",
)

# %% [markdown]
# ## E3.4: four single-output sets (§3.3.3)

# %%
balance, cnae9 = chapter.load("balance"), chapter.load("cnae9")
mediamill, bibtex = chapter.load("mediamill-single"), chapter.load("bibtex-single", split=0)
uji = chapter.load("ujiindoorloc")
everything = chapter.load("ujiindoorloc", points_per_floor=None, standardise=False)

printed = {
    "balance": (625, 4, 3),
    "cnae9": (1080, 856, 9),
    "bibtex-single": (7395, 1836, 148),
    "mediamill-single": (6689, 120, 35),
}
described = [d for d in (balance, cnae9, bibtex, mediamill) if d is not mediamill or d.source == "real"]
sizes = {d.name: (*d.X.shape, len(np.unique(d.Y))) for d in described}
floors = pd.Series(everything.Y[:, 0]).groupby([everything.output, everything.Y[:, 0]]).size()
counts = tuple(int(n) for n in floors.groupby(level=0).size())
chapter.claim(
    "ma-3-c24",
    holds=bool(
        all(sizes[name] == printed[name] for name in sizes)
        and everything.X.shape == (21048, 520)
        and counts == (4, 4, 5)
        and floors.min() >= 200
    ),
    measured="; ".join(f"{name} {n}×{p}, {c} classes" for name, (n, p, c) in sizes.items())
    + f"; UJIIndoorLoc {everything.X.shape[0]}×{everything.X.shape[1]}, floors {counts}, smallest floor {floors.min()} rows",
    data=[*described, everything],
)

# %% [markdown]
# One claim is about the printed numbers alone. The means of F1 on Mediamill are 0.04 (G-A), 0.08 (G-M) and 0.25
# (MOGPs-AR), which the text calls about six and four times higher:

# %%
six, four = 0.25 / 0.04, 0.25 / 0.08
chapter.claim(
    "ma-3-c17",
    holds=bool(round(six) == 6 and round(four) == 4),
    measured=f"0.25/0.04 = {six:.2f}, 0.25/0.08 = {four:.2f}",
    note="Arithmetic on the printed means: six is right, the factor over G-M is about three, not four.",
)

# %% [markdown]
# First the number of latent GPs, by the inner split, for the sets where this profile has candidates to choose from
# (the others take the first of theirs):

# %%
NEGATIVES = {"balance": 1, "cnae9": 5, "mediamill-single": 5, "bibtex-single": 20, "ujiindoorloc": 2}
SIZES = {
    "balance": settings.balance,
    "cnae9": settings.cnae9,
    "mediamill-single": settings.mediamill,
    "bibtex-single": settings.bibtex,
    "ujiindoorloc": settings.uji,
}
FOLDS = {"balance": 5, "cnae9": 5, "mediamill-single": 5, "bibtex-single": 3, "ujiindoorloc": 3}


def of(name, **changes):
    """What all runs on a data set share."""
    own = SIZES[name]
    shared = dict(data=name, folds=FOLDS[name], negatives=NEGATIVES[name], inducing=own["inducing"], steps=own["steps"])
    return {**shared, **changes}


def inner_points(name):
    """Runs on the inner split, for every Q and every fold that is looked at."""
    own = SIZES[name]
    shared = of(name, model="MOGPs-AR", inner=True)
    return [{**shared, "fold": k, "latents": Q} for k in range(own["choose"]) for Q in own["latents"]]


def inner_recall(table, name):
    """A row for each fold, a column for each Q; the mean over outputs."""
    own = table[table["data"] == name]
    return own.assign(recall=own["recall"].map(np.mean)).pivot(index="fold", columns="latents", values="recall")


chosen_from = runs([point for name in SIZES for point in inner_points(name)])
inner = {name: inner_recall(chosen_from, name) for name in SIZES if SIZES[name]["choose"]}
best = {name: frame.idxmax(axis=1) for name, frame in inner.items()}
pd.concat({name: frame.mean().round(3).rename("inner recall") for name, frame in inner.items()}).rename_axis(
    ["data", "Q"]
).to_frame()

# %%
named = {"balance": 2, "cnae9": 9}
shortfall = {name: inner[name].mean().max() - inner[name].mean()[Q] for name, Q in named.items()}
chapter.claim(
    "ma-3-c15",
    holds=bool(max(shortfall.values()) <= 0.02),
    measured="; ".join(
        f"{name}: Q = {named[name]} within {gap:.3f} of the best (chosen: {', '.join(map(str, sorted(set(best[name]))))})"
        for name, gap in shortfall.items()
    )
    + f"; {len(inner['balance'])} and {len(inner['cnae9'])} folds, {settings.balance['steps']} and {settings.cnae9['steps']} steps",
    data=[balance, cnae9],
)

# %% [markdown]
# Then the comparison: on each fold MOGPs-AR and MG-M with the chosen $Q$ (of the first fold where the others were not
# looked at), and the single-output models both ways. MG-M is left out on Bibtex, where it ran out of memory in the
# thesis.

# %%
SINGLE = ["G-A", "G-M", "G-A, as published", "G-M, as published"]
MODELS = {
    "balance": ["MOGPs-AR", "MG-M", *SINGLE],
    "cnae9": ["MOGPs-AR", "MG-M", *SINGLE],
    "mediamill-single": ["MOGPs-AR", "MG-M", *SINGLE],
    "bibtex-single": ["MOGPs-AR", *SINGLE],
    "ujiindoorloc": ["MOGPs-AR", *SINGLE],
}
METRICS = ["precision", "recall", "f1"]


def comparison(name, best=None):
    """Runs of all models on all folds of a set, with the best Q of the fold, or the first candidate."""
    own, points = SIZES[name], []
    for k in range(own["run"]):
        Q = own["latents"][0] if best is None else int(best.get(k, best.iloc[0]))
        points += [of(name, model=m, fold=k, latents=Q if m in ("MOGPs-AR", "MG-M") else 0) for m in MODELS[name]]
    return points


one_output = [name for name in SIZES if name != "ujiindoorloc"]
table = runs([point for name in one_output for point in comparison(name, best.get(name))])
results = dict(list(table.groupby("data", sort=False)))


def scores_of(frame, output=0):
    """Mean and s.d. over folds of the three metrics, by model."""
    flat = frame[["model", "fold"]].assign(**{m: [float(v[output]) for v in frame[m]] for m in METRICS})
    return flat.groupby("model", sort=False)[METRICS].agg(["mean", "std"]).fillna(0.0)


summary = {name: scores_of(frame) for name, frame in results.items()}
sets = [d for d in (balance, cnae9, mediamill, bibtex) if d.source == "real"] or [balance, cnae9, mediamill, bibtex]

# %% tags=["hide-input"]
TITLES = {"balance": "Balance", "cnae9": "CNAE-9", "mediamill-single": "Mediamill", "bibtex-single": "Bibtex"}
PAINT = {
    "MOGPs-AR": COLOURS["blue"],
    "MG-M": COLOURS["sky"],
    "G-A": COLOURS["green"],
    "G-M": COLOURS["orange"],
    "G-A, as published": COLOURS["grey"],
    "G-M, as published": COLOURS["brown"],
}


def metric_bars(ax, scores):
    """Bars by metric and model, with the s.d. over folds."""
    width = 0.84 / len(scores)
    for i, (model, row) in enumerate(scores.iterrows()):
        at = np.arange(3) + (i - (len(scores) - 1) / 2) * width
        heights, errors = (row.xs(part, level=1)[METRICS].to_numpy() for part in ("mean", "std"))
        ax.bar(at, heights, width, yerr=errors, color=PAINT[model], label=model, error_kw=dict(lw=1))
    ax.set_xticks(range(3), ["precision", "recall", "F1"])
    ax.grid(axis="x", visible=False)


missing = [TITLES[d.name] for d in (balance, cnae9, mediamill, bibtex) if d not in sets]
with chapter.figure(
    "ma-fig-3-4",
    nrows=-(-len(sets) // 2),
    ncols=2,
    figsize=(9.0, 3.1 * -(-len(sets) // 2) + 0.6),
    data=sets,
    partial=f"left out, as the data could not be had: {', '.join(missing)}" if missing else "",
    alt="Weighted precision, recall and F1 of each model on each data set, with standard deviations over folds.",
    squeeze=False,
) as axes:
    for ax, d in zip(axes.flat, sets, strict=False):
        metric_bars(ax, summary[d.name])
        ax.set(title=f"{TITLES[d.name]}, {SIZES[d.name]['run']} of {FOLDS[d.name]} folds")
    for ax in axes.flat[len(sets) :]:
        ax.set_visible(False)
    axes[0, 0].figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)

# %% [markdown]
# Means over folds:

# %%
pd.concat({TITLES[d.name]: summary[d.name].xs("mean", axis=1, level=1) for d in sets}).rename_axis(
    ["data", "model"]
).map("{:.3f}".format)


# %%
def wins(names, suffix):
    """In how many of the (set, metric, baseline) comparisons MOGPs-AR is ahead, of how many, and where it is not."""
    pairs = [(name, metric, f"{kind}{suffix}") for name in names for metric in METRICS for kind in ("G-A", "G-M")]
    ahead = [summary[n].loc["MOGPs-AR", (m, "mean")] > summary[n].loc[b, (m, "mean")] for n, m, b in pairs]
    behind = dict.fromkeys(
        f"{TITLES[n]} ({b.split(',')[0]})" for (n, _, b), won in zip(pairs, ahead, strict=True) if not won
    )
    return sum(ahead), len(pairs), ", ".join(behind) or "nowhere"


scale = "; ".join(f"{TITLES[d.name]} {SIZES[d.name]['run']} folds, {SIZES[d.name]['steps']} steps" for d in sets)
as_published, corrected = wins([d.name for d in sets], ", as published"), wins([d.name for d in sets], "")
chapter.claim(
    "ma-3-c13",
    holds=bool(as_published[0] == as_published[1] and corrected[0] == corrected[1]),
    measured=f"baselines as published: ahead in {as_published[0]} of {as_published[1]} comparisons, behind on: {as_published[2]}; "
    f"correctly scaled: {corrected[0]} of {corrected[1]}, behind on: {corrected[2]} ({scale})",
    note="It holds only if it does with both. The published baselines weigh the KL N/|B| times too much: 2.5 times on "
    "Balance, 24 times on Bibtex.",
)


# %%
def gain(name, metric, suffix):
    better = max(summary[name].loc[f"{kind}{suffix}", (metric, "mean")] for kind in ("G-A", "G-M"))
    return summary[name].loc["MOGPs-AR", (metric, "mean")] / better - 1


gains = {(n, m): gain(n, m, ", as published") for n in ("balance", "cnae9") for m in METRICS}
gains_corrected = {key: gain(*key, "") for key in gains}
chapter.claim(
    "ma-3-c14",
    holds=all(0.03 <= g <= 0.25 for g in gains.values()),
    measured="; ".join(
        f"{TITLES[n]}: "
        + ", ".join(f"{m} {gains[n, m]:+.1%} (corrected baselines {gains_corrected[n, m]:+.1%})" for m in METRICS)
        for n in ("balance", "cnae9")
    ),
    note="Gain over the better of the two single-output models.",
    data=[balance, cnae9],
)

# %%
f1 = {model: row[("f1", "mean")] for model, row in summary["mediamill-single"].iterrows()}
chapter.claim(
    "ma-3-c16",
    holds=bool(f1["G-A, as published"] < f1["G-M, as published"] < f1["MOGPs-AR"] and 0.15 <= f1["MOGPs-AR"] <= 0.40),
    measured=f"{mediamill.source} data, F1: " + ", ".join(f"{model} {value:.3f}" for model, value in f1.items()),
    data=mediamill,
)

# %%
difference = {
    n: abs(summary[n].loc["MOGPs-AR", ("f1", "mean")] - summary[n].loc["MG-M", ("f1", "mean")])
    for n in ("balance", "cnae9")
}
chapter.claim(
    "ma-3-c18",
    holds=bool(max(difference.values()) <= (0.03 if settings.rule == "paper" else 0.05)),
    measured="|F1(MOGPs-AR) − F1(MG-M)|: " + ", ".join(f"{TITLES[n]} {v:.3f}" for n, v in difference.items()),
    data=[balance, cnae9],
)

# %%
ratio_148 = 1 / element_ratio(148, 20)
epoch = -(-4880 // BATCH)
completed = [int(t[0]) for t in results["bibtex-single"].query("model == 'MOGPs-AR'")["trained"]]
chapter.claim(
    "ma-3-c19",
    holds=bool(abs(ratio_148 - 148 / 21) < 1e-9 and (min(completed) >= epoch or settings.rule == "any")),
    measured=f"class-expanded tensor of MG-M {ratio_148:.2f} times that of MOGPs-AR(20), counted; MOGPs-AR(20) trained for {min(completed)} "
    f"steps, an epoch has {epoch}",
    note="With the mixing path MG-M fits in memory as well: its largest tensor is then that of the softmax samples.",
    data=bibtex,
)

# %% [markdown]
# ### Start values in many dimensions
#
# With $\ell=1$ in 856 or 1836 dimensions, most pairs of texts are several lengthscales apart and the kernel matrix is
# almost diagonal. Does training recover?

# %%
texts = {"cnae9": int(best["cnae9"].iloc[0]), "bibtex-single": settings.bibtex["latents"][0]}
begun = [{**of(name, model="MOGPs-AR"), "fold": 0, "latents": Q} for name, Q in texts.items()]
started = runs([{**point, **start} for point in begun for start in ({}, {"start": "thesis"})])
started["recall"] = [r[0] for r in started["recall"]]
started["start"] = started["start"].fillna("ours")
started.pivot(index="data", columns="start", values="recall").rename(index=TITLES).map("{:.3f}".format).rename(
    columns={"ours": "recall, our start", "thesis": "recall, thesis's start"}
)

# %% [markdown]
# ## E3.5: three buildings (§3.3.4)
#
# UJIIndoorLoc: the floor from the strengths of 520 WiFi stations. An output is a building, with 200 fingerprints a
# floor; stations are standardised in each building before the split, as in the thesis. Here the multi-output model
# shares its latent GPs between buildings; the baselines fit each building alone. (The inducing points are counted for
# each output: MOGPs-AR has three times as many in common.)

# %%
results_uji = runs(comparison("ujiindoorloc", best.get("ujiindoorloc")))
by_building = {name: scores_of(results_uji, d) for d, name in enumerate(uji.outputs)}

# %% tags=["hide-input"]
with chapter.figure(
    "ma-fig-3-5",
    nrows=3,
    figsize=(7.6, 7.6),
    data=uji,
    sharex=True,
    alt="Weighted precision, recall and F1 in each of three buildings for MOGPs-AR and for the single-output models, as published and "
    "correctly scaled.",
) as axes:
    for ax, (name, scores) in zip(axes, by_building.items(), strict=True):
        metric_bars(ax, scores)
        ax.set(title=name, ylim=(0, 1))
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


# %%
def building_wins(suffix):
    pairs = [(b, m, f"{k}{suffix}") for b in uji.outputs for m in METRICS for k in ("G-A", "G-M")]
    ahead = [by_building[b].loc["MOGPs-AR", (m, "mean")] > by_building[b].loc[k, (m, "mean")] for b, m, k in pairs]
    behind = dict.fromkeys(b for (b, _, _), won in zip(pairs, ahead, strict=True) if not won)
    return sum(ahead), len(pairs), ", ".join(behind) or "none"


as_published, corrected = building_wins(", as published"), building_wins("")
scale_uji = f"{settings.uji['run']} of 3 folds, {settings.uji['steps']} steps, {settings.uji['inducing']} inducing points an output"
chapter.claim(
    "ma-3-c20",
    holds=bool(as_published[0] == as_published[1] and corrected[0] == corrected[1]),
    measured=f"ahead in {as_published[0]} of {as_published[1]} comparisons with the baselines as published (behind in: {as_published[2]}), in "
    f"{corrected[0]} of {corrected[1]} with correctly scaled ones (behind in: {corrected[2]}); {scale_uji}",
    note="It holds only if it does with both. The published baselines weigh the KL N/|B| times too much: 2.7 times for "
    "Buildings I and II, 3.3 for III.",
)


# %%
def recall_ratio(suffix):
    scores = by_building[uji.outputs[0]]
    return scores.loc["MOGPs-AR", ("recall", "mean")] / max(
        scores.loc[f"{k}{suffix}", ("recall", "mean")] for k in ("G-A", "G-M")
    )


chapter.claim(
    "ma-3-c21",
    holds=bool(1.2 <= recall_ratio(", as published") <= 1.9),
    measured=f"recall in Building I over the better single-output GP: {recall_ratio(', as published'):.2f} with the baselines as published, "
    f"{recall_ratio(''):.2f} correctly scaled; {scale_uji}",
)

# %% [markdown]
# Standardising before the split lets the test rows into the scaling. The same folds and models, scaled by the
# training rows of each building alone (a station that no training row hears says nothing):

# %%
HONEST = ["MOGPs-AR", "G-A", "G-M"]
points = [p for p in comparison("ujiindoorloc", best.get("ujiindoorloc")) if p["model"] in HONEST]
by_training = runs([{**p, "scaling": "training rows"} for p in points])
recall_by_scaling = {
    (name, scaling): scores_of(frame, d).loc[HONEST, ("recall", "mean")]
    for scaling, frame in (("all rows", results_uji), ("training rows", by_training))
    for d, name in enumerate(uji.outputs)
}
pd.DataFrame(recall_by_scaling).sort_index(axis=1).rename_axis(columns=["weighted recall", "scaled by"]).round(3)

# %% [markdown]
# ## E3.6: what the matrices say (Figures 3.6 and 3.7)
#
# The thesis shows $\mathbf B_4$ and $\mathbf B_6$ of its second fold. Latent GPs have no order, so their numbers mean
# nothing in another fit; these are the two with the largest entries of our last fold.

# %%
fitted = results_uji.query("model == 'MOGPs-AR'")
A = fitted["A"].iloc[-1]
strongest = np.argsort(-np.linalg.norm(A, axis=0))[:2]
floors_of = [f"{roman}{floor}" for roman, n in zip(("I ", "II ", "III "), (4, 4, 5), strict=True) for floor in range(n)]
building_of = np.repeat(range(3), (4, 4, 5))

# %% tags=["hide-input"]
with chapter.figure(
    "ma-fig-3-6",
    ncols=2,
    figsize=(9.0, 5.0),
    data=uji,
    alt="Hinton diagrams of two 13 by 13 coregionalisation matrices; rows and columns are floors, coloured by building.",
) as axes:
    for ax, q in zip(axes, strongest, strict=True):
        hinton(ax, np.outer(A[:, q], A[:, q]), floors_of, floors_of)
        for ticks in (ax.get_xticklabels(), ax.get_yticklabels()):
            for tick, b in zip(ticks, building_of, strict=True):
                tick.set_color([COLOURS["blue"], COLOURS["red"], COLOURS["green"]][b])
        ax.tick_params(axis="x", rotation=90)
        ax.set_title(f"$\\mathbf{{B}}_{{{q + 1}}}$ of {A.shape[1]}")

# %% [markdown]
# Blue squares are positive, red ones negative. The global absolute coregionalisation matrix averages $|\mathbf B_q|$
# over latent GPs, folds, and the classes of each pair of outputs:

# %%
gacm = np.mean(list(fitted["coupling"]), axis=0)


def gacm_from(A):
    share = np.eye(3)[building_of].T / np.array([4, 4, 5])[:, None]
    return share @ np.mean([np.abs(np.outer(a, a)) for a in A.T], axis=0) @ share.T


within = np.concatenate([rng.permutation(np.flatnonzero(building_of == b)) for b in range(3)])
unchanged = np.abs(gacm_from(A[within]) - fitted["coupling"].iloc[-1]).max()

# %% tags=["hide-input"]
with chapter.figure(
    "ma-fig-3-7",
    figsize=(5.4, 4.4),
    data=uji,
    alt="Heat map of the three by three global absolute coregionalisation matrix of the buildings.",
) as ax:
    coregionalisation(ax, gacm, ["I", "II", "III"], colourbar=False)
    ax.set(title="global absolute coregionalisation", xlabel="building", ylabel="building")

# %%
chapter.claim(
    "ma-3-c22",
    holds=bool(max(gacm[2, 0], gacm[2, 1]) < gacm[0, 1]),
    measured=f"mean |B_q| of III–I {gacm[2, 0]:.3f} and III–II {gacm[2, 1]:.3f}, of I–II {gacm[0, 1]:.3f}; {len(fitted)} folds, all q",
    data=uji,
)

# %%
order = bool(
    gacm[0, 1] > max(gacm[0, 2], gacm[1, 2]) and np.argmax(np.diag(gacm)) == 1 and np.argmin(np.diag(gacm)) == 2
)
sound = bool(np.abs(gacm - gacm.T).max() <= 1e-12 and gacm.min() >= 0 and unchanged <= 1e-12)
chapter.claim(
    "ma-3-c23",
    holds=order and sound,
    measured=f"I–II {gacm[0, 1]:.3f}, I–III {gacm[0, 2]:.3f}, II–III {gacm[1, 2]:.3f}; diagonal "
    + ", ".join(f"{v:.3f}" for v in np.diag(gacm))
    + f"; symmetric, non-negative, and under permutation of classes the same to {unchanged:.0e}",
    note="The order of the entries moves with the fold and the start; see the table below.",
    data=uji,
)

# %% [markdown]
# How much of this is signal? Two checks. $\mathbf A$ is random at the start, and has a global matrix of its own
# before it has seen any data. And, as in E3.1, a loading that all floors of a building share cancels in the softmax
# of that building: under the exact bound the data say nothing about it, yet it counts in the global matrix.
# Subtracting from each column of $\mathbf A$ its mean over the floors of each building removes it.


# %%
def unit_rows(seed):
    W = np.random.default_rng(seed).normal(size=A.shape)
    return W / np.linalg.norm(W, axis=1, keepdims=True)


def centred(A):
    means = np.array([A[building_of == b].mean(0) for b in range(3)])
    return A - means[building_of]


random_starts = np.array([gacm_from(unit_rows(k)) for k in range(10)])
without_shared = [gacm_from(centred(A)) for A in fitted["A"]]
cells = {"I–I": (0, 0), "II–II": (1, 1), "III–III": (2, 2), "I–II": (0, 1), "I–III": (0, 2), "II–III": (1, 2)}
pd.DataFrame(
    {
        "trained, by fold": {n: ", ".join(f"{c[ij]:.3f}" for c in fitted["coupling"]) for n, ij in cells.items()},
        "trained, shared loadings removed": {
            n: ", ".join(f"{c[ij]:.3f}" for c in without_shared) for n, ij in cells.items()
        },
        "before training (mean ± s.d. of 10 starts)": {
            n: f"{random_starts[:, *ij].mean():.3f} ± {random_starts[:, *ij].std():.3f}" for n, ij in cells.items()
        },
    }
)

# %% [markdown]
# ## Settings of the chapter (Table 3.1)

# %%
thesis = pd.read_csv(data_folder() / "published" / "ma-table-3-1.csv")
ours = {"s20": {**settings.s20, "choose": 0}} | SIZES
chapter.table(
    "ma-table-3-1",
    thesis.assign(
        latents=thesis["latents"].fillna("–"),
        **{
            "latents, here": [
                "–" if "G-A" in m else ", ".join(map(str, ours[d]["latents"]))
                for d, m in zip(thesis["data"], thesis["model"], strict=True)
            ],
            "inducing, here": [ours[d]["inducing"] for d in thesis["data"]],
            "folds run, here": [ours[d]["run"] for d in thesis["data"]],
            "steps, here": [ours[d]["steps"] for d in thesis["data"]],
        },
    ).rename(columns={"latents": "latents (Q)", "inducing": "inducing (M)"}),
)

# %% [markdown]
# The batch is 200 everywhere; the thesis trains for 4000 steps of Adam at 0.01.
#
# ## What we found that the document does not say
#
# - Class functions that share latent GPs are correlated under $q$. Written as if they were independent, the objective
#   can exceed the expected log-softmax; with the right covariance it cannot, for the same cost.
# - Sampling classes inside the logarithm biases the objective upwards, most for small $s$. A stored $\theta$ removes
#   the bias.
# - The class factor in the cost comes from expanding the cross-covariance by class, not from the model. Projecting
#   the latent GPs and mixing afterwards gives the same numbers without it.
# - $\mathbf B$ between the classes of an output is determined only up to a shared column. The symmetric pattern of
#   Table 3.2 is a preference of the independent form, and the global matrix of Figure 3.7 contains what the data do
#   not determine.
# - The single-output baselines of the thesis have an unscaled data term. Comparisons with the scaled ones are in
#   ma-3-c13 and ma-3-c20.
#
# ## Exercises

# %% [markdown] tags=["exercise"]
# **Exercise 1.** Derive the Gumbel identity without calculus: argue that with independent exponential variables $E_c$
# of rate $e^{f_c}$, $\arg\min_c E_c$ has the softmax as distribution, and that $-\log E_c$ is a Gumbel variable
# located at $f_c$. Check both by simulation.

# %% [markdown] tags=["solution"]
# $P(-\log E\le t)=P(E\ge e^{-t})=e^{-e^{f-t}}$ is the distribution function of a Gumbel located at $f$; the largest
# $-\log E_c$ belongs to the smallest $E_c$. Exponential clocks with rates $r_c$ race: the chance that $c$ rings first
# is $r_c/\sum_{c'}r_{c'}$.

# %% tags=["solution"]
f = np.array([0.5, -1.0, 1.2, 0.0])
race = rng.exponential(np.exp(-f), size=(200_000, 4))
noisy = f + rng.gumbel(size=(200_000, 4))
pd.DataFrame(
    {
        "softmax": special.softmax(f),
        "first of four clocks": np.bincount(race.argmin(1)) / 200_000,
        "largest score with Gumbel noise": np.bincount(noisy.argmax(1)) / 200_000,
    }
).rename_axis("class").map("{:.4f}".format)

# %% [markdown] tags=["exercise"]
# **Exercise 2.** Break the bound. For two classes with $a=(1,r)$, $m=3$ and $s=0.5$, the first of which is observed,
# find for which $r$ the independent form exceeds the expected log-softmax, and explain the sign of $r$. What happens
# for $r>0$? And with $m=0$, $s=1$?

# %% tags=["solution"]
slopes = np.linspace(-2, 0.6, 53)
fig, axes = plt.subplots(1, 2, figsize=(9.0, 3.4))
for ax, m, v, low in zip(axes, (3.0, 0.0), (0.5, 1.0), (-0.02, -1.5), strict=True):
    curves = np.array([three_values(np.array([[1.0], [r]]), np.full(1, m), np.full(1, v), 0) for r in slopes])
    for column, name, colour in ((0, "independent", "red"), (1, "exact", "blue")):
        ax.plot(slopes, curves[:, column] - curves[:, 2], color=COLOURS[colour], label=name)
    ax.axhline(0, color="black", lw=1)
    ax.set(xlabel="$r$, with $a = (1, r)$", title=f"$m = {m:g}$, $s = {v:g}$", ylim=(low, -0.3 * low))
axes[0].set_ylabel("objective − E log softmax (nats)")
fig.legend(*axes[0].get_legend_handles_labels(), title="class functions taken as", loc="outside lower center", ncols=2)
plt.show()

# %% [markdown] tags=["solution"]
# The independent form takes $1+r^2$ for the variance of the difference, which is $(1-r)^2=1+r^2-2r$. For $r<0$ it is
# too small and the form too large; whether that is enough to pass the expected log-softmax depends on Jensen's own
# slack, which is small where the label is nearly certain (left) and large where it is not (right). For $r>0$ it is too large and the form looser than it need be, most at $r=1$, where the difference of the
# functions is exactly zero.

# %% [markdown] tags=["exercise"]
# **Exercise 3.** What does a shared column in $\mathbf A$ do? Add a latent GP whose loadings are the same for all
# classes of an output. Compare the bound under `covariance="exact"` and `"independent"`, and $\mathbf B$, before and
# after.

# %% tags=["solution"]
loadings = rng.normal(size=(3, 2))
found = {}
for covariance in ("exact", "independent"):
    for shared_column in (0.0, 1.0, 3.0):
        W = np.hstack([loadings, np.full((3, 1), shared_column)])
        model = mogps_ar(
            three,
            [3],
            latents=3,
            inducing=given_points(Z, 3),
            negatives=None,
            covariance=covariance,
            W=W,
            lengthscale=1.0,
            scaling=None,
        )
        model.posterior.q_mu.assign(q_mu)
        found[covariance, shared_column] = {
            "data term": f"{float(model.data_terms(three)[0]):.6f}",
            "sum of |B|": f"{np.abs(model.prior.coregionalisation()).sum():.2f}",
        }
pd.DataFrame(found).T.rename_axis(["covariance", "loading of the shared column"])

# %% [markdown] tags=["solution"]
# The softmax does not change when a function is added to all scores, and neither does the exact bound, whatever the
# loading. $\mathbf B$ does: entries of a coregionalisation matrix between classes of one output are not determined by
# the data, so a strong $\mathbf B$ does not mean a strong coupling. The independent form pays for the shared column,
# as if it made the classes uncertain.

# %%
chapter.finish()
