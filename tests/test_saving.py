from __future__ import annotations

import json
import zipfile

import gpflow
import numpy as np
import pytest
from gpflow import kernels as k

import mogp
from mogp import likelihoods as lik
from mogp.data import MultiOutputData
from mogp.inducing import subset_points
from mogp.models import ExactLMC, SparseMOGP
from mogp.posteriors import Full, Parsimonious
from mogp.priors import ICM, LMC, Independent

X = np.random.default_rng(0).uniform(-1, 1, size=(9, 2))
LIKELIHOODS = {
    "real": lambda: lik.Gaussian(0.3),
    "noisy": lik.HeteroscedasticGaussian,
    "share": lik.Beta,
    "positive": lik.Gamma,
    "waiting": lik.Exponential,
    "binary": lik.Bernoulli,
    "count": lik.Poisson,
    "zeros": lik.ZeroInflatedPoisson,
    "label": lambda: lik.Softmax(3),
    "robust": lambda: lik.RobustMax(3),
    "stock": lambda: gpflow.likelihoods.StudentT(0.4, df=3.5),
}
PRIORS = {
    "independent": lambda J: Independent([k.Matern32(lengthscales=0.5 + 0.1 * j) for j in range(J)]),
    "shared kernel": lambda J: Independent(k.Matern52() + k.Linear(), functions=J, bias=0.1),
    "LMC": lambda J: LMC([k.SquaredExponential(), k.Periodic(k.Matern12())], J, rank=2, bias=0.2),
    "ICM": lambda J: ICM(k.RationalQuadratic(), J, rank=2),
}
POSTERIORS = {"whitened": Full, "plain": lambda: Full(whiten=False), "parsimonious": Parsimonious}


def everything(prior: str, posterior: str, randomise) -> SparseMOGP:
    kinds = {name: make() for name, make in LIKELIHOODS.items()}
    J = sum(one.latent_dim or 1 for one in kinds.values())
    model = SparseMOGP(PRIORS[prior](J), subset_points(X, 4), kinds, POSTERIORS[posterior]())
    randomise(model, 3)
    return model


@pytest.fixture
def small() -> SparseMOGP:
    return SparseMOGP(ICM(k.Matern32(), 2), subset_points(X, 3), [lik.Gaussian(), lik.Gaussian()], names=["a", "b"])


@pytest.mark.parametrize(
    ("prior", "posterior"),
    [
        ("independent", "whitened"),
        ("shared kernel", "plain"),
        ("LMC", "parsimonious"),
        ("LMC", "whitened"),
        ("ICM", "plain"),
    ],
)
def test_predictions_of_every_kind_survive_saving_and_loading(prior, posterior, tmp_path, randomise):
    model = everything(prior, posterior, randomise)
    gpflow.set_trainable(model.inducing, False)
    loaded = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
    assert type(loaded) is SparseMOGP
    assert loaded.names == model.names
    for a, b in zip(
        (*model.predict_f(X), *model.predict_y(X)), (*loaded.predict_f(X), *loaded.predict_y(X)), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(model.predict_y_samples(X, "label", 3), loaded.predict_y_samples(X, "label", 3))
    assert not loaded.inducing.Z.trainable
    assert [v.shape for v in loaded.trainable_variables] == [v.shape for v in model.trainable_variables]


def test_a_loaded_model_trains_on_as_the_one_in_memory(tmp_path):
    """The Monte-Carlo likelihood's generator included."""
    data = MultiOutputData.from_arrays(X, np.arange(9) % 3)
    model = SparseMOGP(Independent(k.Matern32(), functions=3), subset_points(X, 4), lik.Softmax(3))
    mogp.fit(model, data, steps=3, progress=False)
    loaded = mogp.load(mogp.save(model, tmp_path / "model.mogp"))
    runs = [mogp.fit(one, data, steps=3, progress=False).elbo for one in (model, loaded)]
    np.testing.assert_array_equal(*runs)


def test_exact_models_survive_too(tmp_path, uneven):
    model = ExactLMC(uneven, kernel=k.Matern32() + k.Linear(), rank=2, scaling=None)
    loaded = mogp.load(mogp.save(model, tmp_path / "exact.mogp"))
    np.testing.assert_array_equal(loaded.elbo(), model.elbo())
    for a, b in zip(model.predict_y(uneven.X, 1), loaded.predict_y(uneven.X, 1), strict=True):
        np.testing.assert_array_equal(a, b)


def test_saving_leaves_one_file_and_replaces_the_old_one(small, tmp_path):
    path = tmp_path / "folder" / "model.mogp"
    mogp.save(small, path)
    small.prior.W.assign([[3.0], [4.0]])
    assert mogp.save(small, path) == path
    assert [p.name for p in path.parent.iterdir()] == ["model.mogp"]
    np.testing.assert_array_equal(mogp.load(path).prior.W, [[3.0], [4.0]])


def test_a_failed_save_leaves_the_old_file_and_nothing_else(small, tmp_path):
    path = mogp.save(small, tmp_path / "model.mogp")
    before = path.read_bytes()
    small.cannot_be_pickled = lambda: None
    with pytest.raises(Exception, match=r"(?i)pickle"):
        mogp.save(small, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.mogp"]


def rewritten(path, change):
    """The same file with another `meta.json`."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    meta = json.loads(contents["meta.json"])
    change(meta)
    contents["meta.json"] = json.dumps(meta).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def other(version: str, part: int) -> str:
    numbers = version.split(".")
    numbers[part] = str(int(numbers[part]) + 7)
    return ".".join(numbers)


def test_another_major_version_is_refused_with_what_to_install(small, tmp_path):
    path = mogp.save(small, tmp_path / "m.mogp")
    rewritten(path, lambda meta: meta["versions"].update(gpflow=other(meta["versions"]["gpflow"], 0)))
    with pytest.raises(ValueError, match=r"written with gpflow 9\..*installed is 2\..*Install gpflow==9"):
        mogp.load(path)


def test_another_minor_version_loads_with_a_warning(small, tmp_path):
    path = mogp.save(small, tmp_path / "m.mogp")
    rewritten(path, lambda meta: meta["versions"].update(numpy=other(meta["versions"]["numpy"], 1)))
    with pytest.warns(UserWarning, match="written with numpy 1"):
        loaded = mogp.load(path)
    np.testing.assert_array_equal(loaded.prior.W, small.prior.W)


def test_a_file_of_the_first_edition_is_refused_with_the_version_to_install(small, tmp_path):
    def first_edition(meta):
        meta.update(format=1)
        meta["versions"]["mogp-companion"] = "0.1.0"

    path = rewritten(mogp.save(small, tmp_path / "m.mogp"), first_edition)
    with pytest.raises(ValueError, match=r"format 1, this version of mogp reads format 2.*mogp-companion==0\.1\.0"):
        mogp.load(path)


def test_another_format_is_refused(small, tmp_path):
    path = rewritten(mogp.save(small, tmp_path / "m.mogp"), lambda meta: meta.update(format=99))
    with pytest.raises(ValueError, match="has format 99, this version of mogp reads format 2"):
        mogp.load(path)


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_a_truncated_file_is_refused(small, tmp_path, keep):
    path = mogp.save(small, tmp_path / "m.mogp")
    whole = path.read_bytes()
    path.write_bytes(whole[: keep if isinstance(keep, int) else int(keep * len(whole))])
    with pytest.raises(ValueError, match="not a model file"):
        mogp.load(path)


def test_a_damaged_file_is_refused(small, tmp_path):
    path = mogp.save(small, tmp_path / "m.mogp")
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("model.pickle")
    content = bytearray(path.read_bytes())
    middle = info.header_offset + 60 + info.compress_size // 2
    content[middle : middle + 20] = bytes(20)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        mogp.load(path)


def test_other_files_are_refused(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a model")
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("a.txt", "b")
    for path in (text, archive):
        with pytest.raises(ValueError, match=r"is not a model file: expected one written by mogp\.save"):
            mogp.load(path)
    with pytest.raises(FileNotFoundError, match="no model file"):
        mogp.load(tmp_path / "nowhere.mogp")
