"""What all tests share: quiet, one thread, no windows, no network, and data of a few rows."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("MOGP_OFFLINE", "1")

import functools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from mogp.data import MultiOutputData


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture(params=["called", pytest.param("compiled", marks=pytest.mark.full)])
def either_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Steps so few that they are called, which is quicker than to trace them; `make check` compiles them, too."""
    from eager import eagerly

    with eagerly() if request.param == "called" else nullcontext():
        yield


@pytest.fixture
def float32() -> Iterator[None]:
    """GPflow's default float as float32 for one test."""
    import gpflow

    with gpflow.config.as_context(gpflow.config.Config(float=np.float32)):
        yield


@pytest.fixture(scope="session")
def uneven() -> MultiOutputData:
    """Three outputs over 2-dimensional inputs: two share inputs (one with gaps), one has inputs of its own."""
    rng = np.random.default_rng(3)
    X, own = rng.normal(size=(12, 2)), rng.normal(size=(5, 2))
    second = rng.normal(size=12)
    second[[1, 4, 7]] = np.nan
    return MultiOutputData.from_list(
        [(X, rng.normal(size=12)), (X, second), (own, rng.normal(size=5))], names=["full", "gaps", "own"]
    )


@pytest.fixture(scope="session")
def shared() -> MultiOutputData:
    """Three outputs at the same 12 inputs, some targets missing."""
    rng = np.random.default_rng(4)
    Y = rng.normal(size=(12, 3))
    Y[[0, 5], 1] = np.nan
    Y[[2, 3, 9], 2] = np.nan
    return MultiOutputData.from_arrays(rng.normal(size=(12, 2)), Y, names=["a", "b", "c"])


@pytest.fixture(scope="session")
def dense() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """Textbook moments of all functions of a `SparseMOGP`, with inverses: mean `[N, J]`, covariance `[N, J, N, J]`."""
    return dense_functions


def dense_functions(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    import gpflow

    kernels, posterior = model.prior.kernels.kernels, model.posterior
    J, L = model.prior.num_functions, model.prior.num_latents
    W = np.eye(J) if model.prior.W is None else np.asarray(model.prior.W)
    Z = np.asarray(model.inducing.Z)
    mean, cov = np.zeros((len(X), J)), np.zeros((len(X), J, len(X), J))
    told = []
    for latent in range(L):
        g = latent % len(kernels)
        z = Z if Z.ndim == 2 else Z[g]
        Kuu, Kuf, Kff = kernels[g](z).numpy(), kernels[g](z, X).numpy(), kernels[g](X).numpy()
        if hasattr(posterior, "sigma"):
            m = Kuu @ np.asarray(posterior.mu)[:, latent]
            S = Kuu - Kuu @ np.linalg.inv(Kuu + np.diag(np.asarray(posterior.sigma)[:, latent])) @ Kuu
        else:
            Kuu = Kuu + gpflow.default_jitter() * np.eye(len(z))
            root = np.linalg.cholesky(Kuu) if posterior.whiten else np.eye(len(z))
            if posterior.correlated:
                own = slice(latent * len(z), (latent + 1) * len(z))
                m, S = root @ np.asarray(posterior.q_mu)[own, 0], np.zeros_like(Kuu)
                told.append(np.linalg.solve(Kuu, Kuf).T @ root @ np.asarray(posterior.q_sqrt)[0, own])
            else:
                m = root @ np.asarray(posterior.q_mu)[:, latent]
                S = root @ np.asarray(posterior.q_sqrt)[latent]
                S = S @ S.T
        project = np.linalg.solve(Kuu, Kuf).T
        mean += np.outer(project @ m, W[:, latent])
        latent_cov = Kff - project @ Kuf + project @ S @ project.T
        cov += np.einsum("nm,j,k->njmk", latent_cov, W[:, latent], W[:, latent])
    if told:
        half = np.einsum("jl,lnv->njv", W, np.stack(told))
        cov += np.einsum("njv,mkv->njmk", half, half)
    return mean + (0 if model.prior.bias is None else np.asarray(model.prior.bias)), cov


@pytest.fixture(scope="session")
def told() -> Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Functions and targets given some of the targets, by the textbook formula."""
    return condition_on_targets


def condition_on_targets(
    mean: np.ndarray, cov: np.ndarray, noise: np.ndarray, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Means `[N, J]` and covariances `[N, J, N, J]` of functions and of targets, given `known [N, J]` (NaN: unknown).

    `noise [J, J]` is the covariance of the noise at a row. Inverses, not factors.
    """
    N, J = mean.shape
    C, m = cov.reshape(N * J, N * J), mean.ravel()
    noisy = C + np.kron(np.eye(N), noise)
    g = np.flatnonzero(~np.isnan(known.ravel()))
    inverse = np.linalg.inv(noisy[np.ix_(g, g)])
    moved = []
    for joint in (C, noisy):
        gain = joint[:, g] @ inverse
        moved += [(m + gain @ (known.ravel()[g] - m[g])).reshape(N, J), (joint - gain @ joint[g]).reshape(cov.shape)]
    return moved[0], moved[1], moved[2], moved[3]


@pytest.fixture(scope="session")
def randomise() -> Callable[[Any, int], None]:
    """Give every parameter of `q(u)` of a model a random value."""

    def apply(model: Any, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        posterior = model.posterior
        if hasattr(posterior, "sigma"):
            posterior.mu.assign(rng.normal(size=posterior.mu.shape))
            posterior.sigma.assign(rng.uniform(0.2, 2.0, size=posterior.sigma.shape))
        else:
            posterior.q_mu.assign(rng.normal(size=posterior.q_mu.shape))
            root = 0.3 * rng.normal(size=posterior.q_sqrt.shape)
            posterior.q_sqrt.assign(
                np.tril(root, -1) + np.eye(root.shape[-1]) * rng.uniform(0.3, 1.2, (*root.shape[:2], 1))
            )

    return apply


CHAPTERS, CONTRACT = "tests/chapters/test_chapters.py", "tests/models/test_contract.py"


def share_of(nodeid: str) -> str:
    """What a test shares a long run with: a chapter, the site, a case of the contract; or else its file."""
    file, _, test = nodeid.partition("::")
    asked = test.partition("[")[2].removesuffix("]")
    if "tests/site/" in file:
        return "site"
    return {CONTRACT: asked.split(":")[0], CHAPTERS: asked}.get(file) or file


def turn_of(nodeid: str) -> int:
    """Long runs first, small ones last, so that workers end together; then what looks at all chapters."""
    share = share_of(nodeid)
    if share == CHAPTERS:
        return 3
    return 2 if CONTRACT in nodeid else 0 if share == "site" or CHAPTERS in nodeid else 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a long run stand together."""
    place = {share: n for n, share in enumerate(dict.fromkeys(share_of(item.nodeid) for item in items))}
    items.sort(key=lambda item: (turn_of(item.nodeid), place[share_of(item.nodeid)]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that share a long run go to one worker. (`xdist_group` would say it, but pytest 9 no longer lets it.)"""
    from xdist.scheduler import LoadScopeScheduling

    class ByLongRun(LoadScopeScheduling):
        @functools.cached_property
        def files(self) -> set[str]:
            return {nodeid.partition("::")[0] for nodeid in self.collection or ()}

        def _split_scope(self, nodeid: str) -> str:
            share = share_of(nodeid)
            return nodeid if self.files == {share} else share  # a file that is run alone is shared out

    config.option.loadscopereorder = False
    return ByLongRun(config, log)
