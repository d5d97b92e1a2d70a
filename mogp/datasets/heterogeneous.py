"""Outputs of different types that share their inputs: HUMAN, NAVAL and SARCOS (Giraldo, §8.1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.draws import draw
from mogp.datasets.entry import Entry, unavailable
from mogp.datasets.formats.delimited import read_numbers
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.matlab import read_mat
from mogp.datasets.making import made, size
from mogp.datasets.scaling import standardised, unit_interval
from mogp.datasets.store import DataUnavailableError, path_of

if TYPE_CHECKING:
    pass

PRIVATE_HUMAN = (
    "the records of a psychiatric-monitoring app were never published; the nearest real data are"
    " 'occupancy'"
)


def human() -> Dataset:
    """A person's phone through time: at home or not, distance from home, share of active apps
    (private).

    5000 binary, 5000 real and 21000 values in (0, 1), each output at times of its own.
    """
    raise unavailable("human", PRIVATE_HUMAN)


def human_standin() -> Dataset:
    """A synthetic person with a day's rhythm: three outputs that share two processes, 5000, 5000
    and 21000 values.
    """
    rng = np.random.default_rng(31)
    grid = np.linspace(0.0, 30.0, 6001)
    rhythm = np.sin(2.0 * np.pi * grid)
    u = [rhythm + 0.5 * draw(grid[:, None], scale, rng) for scale in (0.15, 1.5)]
    counts = (5000, 5000, 21000)
    times = [np.sort(rng.uniform(0.0, 30.0, n)) for n in counts]
    near, far, apps = ([np.interp(t, grid, each) for each in u] for t in times)
    at_home = (
        rng.uniform(size=counts[0]) < 1.0 / (1.0 + np.exp(-2.5 * near[0] - 0.8 * near[1]))
    ).astype(float)
    distance = -far[0] + 0.6 * far[1] + np.exp(0.6 * far[1] - 1.0) * rng.standard_normal(counts[1])
    a, b = np.exp(0.8 + 0.5 * apps[0]), np.exp(1.6 - 0.5 * apps[1])
    active = np.clip(rng.beta(a, b), 1e-3, 0.99)
    targets = [at_home, standardised(np.round(distance, 6))[0], np.round(active, 6)]
    return made(
        "human",
        "stand-in",
        "a person's phone through time: at home, distance from home, share of active apps",
        X=standardised(np.concatenate(times))[0][:, None],
        Y=np.concatenate(targets)[:, None],
        output=np.repeat(np.arange(3), counts),
        inputs=("time",),
        outputs=("at home", "distance", "active apps"),
        likelihoods=("Bernoulli", "HeteroscedasticGaussian", "Beta"),
        classes={"at home": ("away", "at home")},
    )


NAVAL = "naval/naval.txt"
NAVAL_INPUTS = (
    *(
        "lever position",
        "ship speed",
        "shaft torque",
        "turbine speed",
        "generator speed",
        "starboard torque",
    ),
    *(
        "port torque",
        "exit temperature 48",
        "inlet temperature 1",
        "outlet temperature 2",
        "exit pressure 48",
    ),
    *(
        "inlet pressure 1",
        "outlet pressure 2",
        "exhaust pressure",
        "injection control",
        "fuel flow",
    ),
)
NINTH = 8


def naval(*, constant: Literal["ninth", "all"] = "ninth") -> Dataset:
    """Decay of a frigate's gas turbine from 15 sensors, 11934 simulated states (Coraddu et al.,
    2016; UCI).

    Beta: decay of the compressor, clipped to [1e-5, 0.999]; Gamma: decay of the turbine, clipped to
    [1e-5, 1]; both first brought to [0, 1]. Inputs have zero mean and unit deviation. The document
    drops one constant input, the ninth of 16. The file has two, the ninth and the twelfth:
    `constant` = "all" drops both; otherwise the twelfth is zero.
    """
    return _naval("real", read_naval(path_of(NAVAL)), constant)


def naval_standin(*, constant: Literal["ninth", "all"] = "ninth") -> Dataset:
    """A synthetic plant on the same design: 9 speeds, 51 states of the compressor, 26 of the
    turbine.
    """
    rng = np.random.default_rng(11934)
    speed, compressor, turbine = (
        axis.ravel()
        for axis in np.meshgrid(np.arange(1, 10), np.arange(51), np.arange(26), indexing="ij")
    )
    s, c, t = speed / 9.0, compressor / 50.0, turbine / 25.0
    wear = np.column_stack([c * s, c * s**3, t * s**1.5, t * s**3])
    level, power = rng.uniform(1.5, 2.5, 16), rng.uniform(0.8, 2.2, 16)
    sensors = level * s[:, None] ** power + wear @ rng.uniform(-0.4, 0.4, (4, 16))
    sensors = sensors + 0.02 * rng.standard_normal(sensors.shape)
    sensors = np.round(1000.0 * sensors) / 10.0
    sensors[:, 0], sensors[:, 1] = 0.1 + speed, 3.0 * speed
    sensors[:, NINTH], sensors[:, 11], sensors[:, 6] = 288.0, 0.998, sensors[:, 5]
    return _naval(
        "stand-in",
        np.column_stack([sensors, 0.95 + 0.001 * compressor, 0.975 + 0.001 * turbine]),
        constant,
    )


def read_naval(path: Path) -> Array:
    """`[11934, 18]`: sixteen sensors, decay of compressor and turbine."""
    return read_numbers(path, delimiter=None, columns=18)


def _naval(source: Source, raw: Array, constant: str) -> Dataset:
    if constant not in ("ninth", "all"):
        raise ValueError(f'constant={constant!r}; expected "ninth" or "all".')
    kept = np.arange(16) != NINTH if constant == "ninth" else np.ptp(raw[:, :16], axis=0) > 0.0
    compressor, _, _ = unit_interval(raw[:, 16:17], 1e-5, 0.999)
    turbine, _, _ = unit_interval(raw[:, 17:], 1e-5, 1.0)
    return made(
        "naval",
        source,
        f"decay of a frigate's gas turbine, {len(raw)} simulated states, {kept.sum()} sensors",
        X=standardised(raw[:, :16][:, kept])[0],
        Y=np.hstack([compressor, turbine]),
        inputs=tuple(np.array(NAVAL_INPUTS)[kept]),
        outputs=("compressor", "turbine"),
        likelihoods=("Beta", "Gamma"),
    )


SARCOS = {"train": "sarcos/sarcos_inv.mat", "test": "sarcos/sarcos_inv_test.mat"}
Part = Literal["train", "test", "all"]


def sarcos(*, part: Part = "train") -> Dataset:
    """Torques at the seven joints of a robot arm from their motion, 44484 x 21 (Vijayakumar and
    Schaal, 2000).

    `part`: the published training file, which is what the document splits again; the "test" file of
    4449 rows alone, for when the larger one is out of reach; or "all", with the published split.
    Inputs and torques have zero mean and unit deviation over the rows of the part.
    """
    try:
        raw = {each: read_sarcos(path_of(SARCOS[each]), each) for each in _parts(part)}
    except DataUnavailableError as problem:
        if part == "test":
            raise
        raise DataUnavailableError(
            f'{problem}\nOr load the smaller file alone, with part="test".'
        ) from problem
    return _sarcos("real", raw)


def sarcos_standin(*, part: Part = "train") -> Dataset:
    """A synthetic arm: joints follow sums of sines, torques come from inertia, speed, gravity and
    noise.
    """
    rows = {"train": 44484, "test": 4449}
    return _sarcos(
        "stand-in", {each: _arm(rows[each], seed) for seed, each in enumerate(_parts(part), 7)}
    )


def read_sarcos(path: Path, part: str) -> Array:
    """`[N, 28]`: seven positions, velocities and accelerations, then seven torques."""
    name = "sarcos_inv" if part == "train" else "sarcos_inv_test"
    values = read_mat(path, [name])[name]
    if values.ndim != 2 or values.shape[1] != 28:
        raise DataFormatError(path, f"{name} has shape {values.shape}, expected 28 columns")
    return values.astype(np.float64)


def _parts(part: str) -> tuple[str, ...]:
    if part not in get_args(Part):
        raise ValueError(f"part={part!r}; expected one of {', '.join(get_args(Part))}.")
    return ("train", "test") if part == "all" else (part,)


def _sarcos(source: Source, raw: dict[str, Array]) -> Dataset:
    table, _, _ = standardised(np.vstack(list(raw.values())))
    split = len(raw) == 2
    return made(
        "sarcos",
        source,
        f"torques of a robot arm from its motion, {len(table)} points"
        + ("" if split else f": the published {next(iter(raw))} file, to be split again"),
        X=table[:, :21],
        Y=table[:, 21:],
        inputs=tuple(
            f"{kind} {joint}"
            for kind in ("position", "velocity", "acceleration")
            for joint in range(1, 8)
        ),
        outputs=tuple(f"torque {joint}" for joint in range(1, 8)),
        likelihoods=("HeteroscedasticGaussian",),
        held_out=np.repeat([False, True], [len(part) for part in raw.values()]) if split else None,
    )


def _arm(rows: int, seed: int) -> Array:
    """Positions, velocities, accelerations and torques [rows, 28] of a synthetic arm."""
    body, path = np.random.default_rng(28), np.random.default_rng(seed)
    time = path.permutation(rows) / 100.0
    rates, phases = body.uniform(0.5, 6.0, (7, 4)), body.uniform(0.0, 2.0 * np.pi, (7, 4))
    sizes = 0.3 / rates
    angle = time[:, None, None] * rates + phases
    q, v, a = (
        (sizes * term).sum(axis=-1)
        for term in (np.sin(angle), rates * np.cos(angle), -(rates**2) * np.sin(angle))
    )
    inertia, drag, gravity = (body.standard_normal((7, 7)) * scale for scale in (0.6, 0.5, 1.0))
    bend = np.sin(3.0 * q) @ gravity + (v * np.roll(v, 1, axis=1)) @ drag * 0.5
    torque = a @ inertia + v @ drag + bend + 0.6 * path.standard_normal((rows, 7))
    return np.round(np.hstack([q, v, a, torque]), 6)


ENTRIES = {
    "human": Entry(human, standin=human_standin, private=PRIVATE_HUMAN),
    "naval": Entry(naval, standin=naval_standin),
    "sarcos": Entry(sarcos, standin=sarcos_standin),
}

SHAPES: dict[str, Callable[[Path], str]] = {
    NAVAL: lambda path: size(read_naval(path)),
    SARCOS["train"]: lambda path: size(read_sarcos(path, "train")),
    SARCOS["test"]: lambda path: size(read_sarcos(path, "test")),
}
