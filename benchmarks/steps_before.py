"""CPU seconds a training step of one version of mogp against another, in one interleaved run.

    python steps_before.py path/to/old/checkout path/to/new/checkout [model ...]

Three workers, each a process with one TensorFlow thread: the old version, the new one, and the old one again (the
control). All build the same models on the same data, compile a step with Adam, and then take blocks of steps in turns,
so that other work on the machine hits all alike; only one of them works at a time. A line a model: the median over the
rounds of the ratio new / old and of control / old, with its quartiles. The control says how far from one a ratio is by
chance. The last column compares the losses after all those steps, which are the same if the numbers are.

Constructors were renamed between versions: a model is asked for in the new words, and after a `TypeError` or
`ValueError` in the old. `documents_step.py` compares the steps of the documents' experiments in the same way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROUNDS, BLOCK_SECONDS = int(os.environ.get("MOGP_BENCH_ROUNDS", "15")), 0.3
ONE_THREAD = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


class Setup(NamedTuple):
    """A model, what it is trained on, rows a step, and whether Adam is lazy."""

    model: Any
    data: Any
    size: int | None = None
    lazy: bool = False


def either(*makers: Callable[[], Any]) -> Any:
    """What the first maker makes whose words this version knows."""
    for make in makers[:-1]:
        with suppress(TypeError, ValueError):
            return make()
    return makers[-1]()


def table(outputs: int, rows: int = 400, inputs: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (rows, inputs))
    return X, np.sin(X @ rng.normal(size=(inputs, outputs)) * 3) + 0.1 * rng.normal(size=(rows, outputs))


def lmc() -> Setup:
    from mogp import MultiOutputData
    from mogp.inducing import subset_points
    from mogp.kernels import unit_kernels
    from mogp.likelihoods import Gaussian
    from mogp.models import SparseMOGP
    from mogp.priors import LMC

    X, Y = table(10)
    points = subset_points(X, 50, sets=3)
    model = SparseMOGP(LMC(unit_kernels(3, 2), functions=10), points, [Gaussian(0.1) for _ in range(10)])
    return Setup(model, MultiOutputData.from_arrays(X, Y), 200)


def hetmogp() -> Setup:
    from mogp import MultiOutputData
    from mogp.likelihoods import Bernoulli, HeteroscedasticGaussian, Poisson
    from mogp.models import hetmogp_lmc

    X, Y = table(3)
    Y = np.column_stack([Y[:, 0], np.random.default_rng(1).poisson(np.exp(Y[:, 1])), Y[:, 2] > 0])
    data = MultiOutputData.from_arrays(X, Y.astype(float))
    return Setup(hetmogp_lmc(data, [HeteroscedasticGaussian(), Poisson(), Bernoulli()], inducing=50), data, 200)


def many_classes() -> Setup:
    from mogp import MultiOutputData
    from mogp.models import mogps_ar

    X, Y = table(2)
    labels = np.argsort(np.argsort(Y, axis=0), axis=0) // 10
    data = MultiOutputData.from_arrays(X, labels)
    return Setup(mogps_ar(data, [40, 40], latents=4, inducing=50, negatives=5), data, 200)


def one_vs_each() -> Setup:
    from mogp import MultiOutputData
    from mogp.models import ovse

    X, Y = table(1, rows=2000)
    data = MultiOutputData.from_arrays(X, np.argsort(np.argsort(Y[:, 0])) // 40)
    options = {"inducing": 20, "lengthscale": 0.5}
    model = either(lambda: ovse(data, posterior="full", **options), lambda: ovse(data, "OvsE-F", **options))
    return Setup(model, data, 40, lazy=True)


def labels() -> Setup:
    from mogp import LabelData
    from mogp.models import mlgpf

    rng = np.random.default_rng(0)
    data = LabelData.of(rng.normal(size=(400, 20)), rng.uniform(size=(400, 100)) < 0.05, normalise=True)
    model = either(
        lambda: mlgpf(data, latents=8, inducing=50, negatives=20),
        lambda: mlgpf("ARD", data, factors=8, inducing=50, negatives=20),
    )
    return Setup(model, data, 100)


def hierarchy() -> Setup:
    from mogp import MultiOutputData
    from mogp.models import hmogp_lv

    X, Y = table(50, rows=100, inputs=1)
    data = MultiOutputData.from_arrays(X, Y, replica=np.arange(100) % 4)
    return Setup(hmogp_lv(data, latent_inducing=8, start="random"), data)


def chain() -> Setup:
    from mogp import MultiOutputData
    from mogp.models import gplar

    X, Y = table(4, rows=200, inputs=1)
    data = MultiOutputData.from_arrays(X, Y)
    return Setup(gplar(data, inducing=30, start="zero"), data)


def exact() -> Setup:
    from mogp import MultiOutputData
    from mogp.models import HGP

    X, Y = table(5, rows=80, inputs=1)
    data = MultiOutputData.from_arrays(X, Y, replica=np.arange(80) % 4)
    return Setup(HGP(data), data)


Models = dict[str, Callable[[], Setup]]
MODELS: Models = {
    "LMC": lmc,
    "HetMOGP-LMC": hetmogp,
    "MOGPs-AR": many_classes,
    "OvsE-F": one_vs_each,
    "MLGPF": labels,
    "HMOGP-LV": hierarchy,
    "GPLAR": chain,
    "HGP": exact,
}


# --- a worker


def compiled(setup: Setup) -> Callable[[Any], Any]:
    """A number of steps to the loss of the last, as one compiled function."""
    import tensorflow as tf

    from mogp.optimizers import Adam

    model, data = setup.model, setup.data
    # Models of old versions that read plain batches have no method for them.
    source = model.batches(data, setup.size) if "batches" in dir(type(model)) else data.batches(setup.size)
    adam, taken = Adam(0.001, lazy=setup.lazy), tf.Variable(0, dtype=tf.int64)
    adam.start(model)

    @tf.function(autograph=False)
    def steps(count: Any) -> Any:
        def one(i: Any, _: Any) -> tuple[Any, Any]:
            batch = source(taken.assign_add(1))
            return i + 1, tf.cast(adam.step(model, lambda: model.training_loss(batch)), tf.float64)

        return tf.while_loop(lambda i, _: i < count, one, (tf.constant(0), tf.constant(0.0, tf.float64)))[1]

    return lambda count: float(steps(tf.constant(count)))


def work(models: Models) -> None:
    """Read `[model, steps]` a line, take that many steps, answer `[CPU seconds, loss]`."""
    import mogp

    if Path.cwd() not in Path(mogp.__file__).parents:
        sys.exit(f"mogp is imported from {mogp.__file__}, not from {Path.cwd()}.")
    answers, sys.stdout = sys.stdout, sys.stderr
    ready: dict[str, Callable[[Any], Any]] = {}
    for line in sys.stdin:
        name, steps = json.loads(line)
        if name not in ready:
            ready[name] = compiled(models[name]())
        began = time.process_time()
        loss = ready[name](steps)
        print(json.dumps([time.process_time() - began, loss]), file=answers, flush=True)


class Worker:
    """A process that imports mogp from a checkout and calls `work`: a script with the argument `--worker`."""

    def __init__(self, checkout: Path, script: Path) -> None:
        if not (checkout / "mogp" / "__init__.py").is_file():
            sys.exit(f"{checkout} is no checkout of mogp: it has no mogp/__init__.py.")
        one = dict.fromkeys(ONE_THREAD, "1")
        self.process = subprocess.Popen(
            [sys.executable, str(script), "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if not os.environ.get("MOGP_BENCH_VERBOSE") else None,
            text=True,
            cwd=checkout,
            env={**os.environ, **one, "PYTHONPATH": str(checkout), "TF_CPP_MIN_LOG_LEVEL": "3"},
        )

    def steps(self, name: str, count: int) -> tuple[float, float]:
        """CPU seconds that they took, and the loss of the last."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, count]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"a worker ended at {name}; MOGP_BENCH_VERBOSE=1 shows why.")
        seconds, loss = json.loads(answer)
        return seconds, loss

    def end(self) -> None:
        """Let it finish."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# --- the comparison


def compare(workers: dict[str, Worker], name: str) -> str:
    """One line of the table."""
    for worker in workers.values():
        worker.steps(name, 2)
    a_step = min(worker.steps(name, 5)[0] / 5 for worker in workers.values())
    count = max(1, round(BLOCK_SECONDS / a_step))
    turns, laps, losses = list(workers), {who: [] for who in workers}, {}
    for _ in range(ROUNDS):
        for who in turns:
            seconds, losses[who] = workers[who].steps(name, count)
            laps[who].append(seconds / count)
        turns.append(turns.pop(0))
    times = {who: np.array(values) for who, values in laps.items()}

    def ratio(who: str) -> str:
        low, middle, high = np.quantile(times[who] / times["old"], [0.25, 0.5, 0.75])
        return f"{middle:.3f} ({low:.3f} to {high:.3f})"

    apart = abs(losses["new"] - losses["old"]) / abs(losses["old"])
    old = 1e3 * np.median(times["old"])
    return f"{name:12} {old:9.2f} ms   {ratio('new'):24} {ratio('control'):24} {apart:.0e}"


def compare_all(script: Path, models: Models, old: str, new: str, *names: str) -> None:
    """A line for each of the models, or for those that are named."""
    unknown = [name for name in names if name not in models]
    if unknown:
        sys.exit(f"no model {unknown[0]!r}; there are {', '.join(models)}.")
    folders = {"old": old, "new": new, "control": old}
    workers = {who: Worker(Path(folder).resolve(), script) for who, folder in folders.items()}
    try:
        print(f"{'model':12} {'old step':>12}   {'new / old':24} {'control / old':24} losses differ by")
        for name in names or models:
            print(compare(workers, name), flush=True)
    finally:
        for worker in workers.values():
            worker.end()


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        work(MODELS)
    elif len(sys.argv) < 3:
        sys.exit(__doc__)
    else:
        compare_all(Path(__file__).resolve(), MODELS, *sys.argv[1:])
