"""Writes the guide's page "How good are the defaults?" from the results: python -m defaults.page

Every number on the page comes from results.csv; questions and roles come from the tasks.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from defaults.results import read, results_file

PAGE = Path(__file__).parent.parent.parent / "chapters" / "guide" / "defaults.md"
RIVALS = ("tuned", "exact_icm", "gp_per_output", "gpytorch", "forest", "linear")
METHODS = ("default", "old", *RIVALS)
WORDS = {
    "default": "default",
    "old": "old default",
    "tuned": "tuned",
    "exact_icm": "exact ICM",
    "gp_per_output": "GPflow, a GP per output",
    "gpytorch": "GPyTorch, multitask",
    "forest": "random forest",
    "linear": "linear model",
}
CLOSE, COVERED, COVERED_SHARE, CONVERGED_SHARE, TIMES, SPLITS = 0.05, (0.90, 0.98), 0.75, 0.80, 3.0, 5
Described = Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Acceptance:
    """One condition: what it asks, what was found, whether it holds (None: nothing to tell from), and who misses it."""

    asked: str
    found: str
    holds: bool | None
    misses: tuple[str, ...] = ()


def page(table: pd.DataFrame, tasks: Described) -> str:
    """The page.

    Args:
        table: the results, a row a run.
        tasks: role and question of each task, by name.
    """
    scored = table[table["nlpd"].notna()]
    roles = {role: [name for name, (own, _) in tasks.items() if own == role] for role in ("deciding", "development")}
    return "\n".join(
        [
            *_introduction(),
            *_verdicts(table, roles["deciding"]),
            *_nlpd(scored, roles),
            *_whole(table, tasks),
            *_methods(),
        ]
    )


def _introduction() -> Iterator[str]:
    yield from """---
html_theme.sidebar_secondary.remove: true
---

<!-- written by benchmarks/defaults/page.py from benchmarks/defaults/results.csv: do not edit -->

# How good are the defaults?

You build a model with the ordinary call and train it with `mogp.fit(model, data)` and nothing else. How far is that
from what could be had? This page answers with real data, five splits each. Recipes were tuned on the **development**
sets alone. The **deciding** sets are looked at once, when the recipe is final: what it misses there is named here, and
not tuned away. (Chapters of the book study some of them, with models and settings of their own.)

- **NLPD** is the mean negative log density of a test target, in the units of the data: lower is better, and a
  difference of .05 is small. Its level depends on the units; only differences in a row mean something.
- **error** is the mean squared error over the variance of the test targets (1: no better than their mean), or the
  share of wrong classes; the mean over outputs.
- **coverage** is the share of test targets inside their 95 % interval; classes have none. Intervals of small counts
  cannot be exact, and cover more.
- **CPU s** are processor seconds of building and fitting on one thread, tracing included; they depend on the machine.

Cells are medians over the splits, with the least and the largest in brackets.

""".splitlines()


def _verdicts(table: pd.DataFrame, deciding: list[str]) -> Iterator[str]:
    yield "## Are they good enough?"
    yield ""
    own = table[table["task"].isin(deciding)]
    if not own["nlpd"].notna().any():
        yield "**The deciding sets have not been run yet.** Nothing on this page decides anything."
        yield ""
        return
    if lacking := _lacking(own, deciding):
        yield f"**The deciding run is not complete**; runs so far: {lacking}. What follows is not final."
        yield ""
    yield "What was asked of default fits on the deciding sets:"
    yield ""
    yield "| asked | found | |"
    yield "|---|---|---|"
    found = list(acceptance(own))
    for one in found:
        verdict = {None: "not known", True: "holds", False: "**missed**"}[one.holds]
        yield f"| {one.asked} | {one.found} | {verdict} |"
    yield ""
    misses = [miss for one in found for miss in one.misses]
    yield "Named misses:" if misses else "No set misses a bound."
    yield ""
    yield from (f"- {miss}" for miss in misses)
    yield ""


def _lacking(own: pd.DataFrame, deciding: Iterable[str]) -> str:
    """Methods that do not have a row for each of the five splits of all sets, and how many they have."""
    needed = SPLITS * len(list(deciding))
    there = own.drop_duplicates(["method", "task", "split"]).groupby("method").size()
    short = {m: int(there.get(m, 0)) for m in METHODS if there.get(m, 0) < needed}
    return ", ".join(f"{WORDS[m]} ({count} of {needed})" for m, count in short.items())


def acceptance(own: pd.DataFrame) -> Iterator[Acceptance]:
    """The conditions, of the rows of the deciding tasks."""
    yield _near_the_best(own)
    yield _not_behind_single(own)
    yield _coverage(own)
    yield _converged(own)
    yield _deterministic(own)
    yield _cpu(own)


def behind(own: pd.DataFrame, rivals: Iterable[str]) -> pd.DataFrame:
    """How far default fits are behind the best rival on each task: "gap" and "rival".

    The gap to one rival is the median over the splits that both finished of the difference in NLPD.
    """
    wide = own[own["nlpd"].notna()].pivot(index=["task", "split"], columns="method", values="nlpd")
    gaps = {m: (wide["default"] - wide[m]).dropna().groupby("task").median() for m in rivals if m in wide}
    if "default" not in wide or not gaps:
        return pd.DataFrame({"gap": [], "rival": []})
    table = pd.DataFrame(gaps).dropna(how="all")
    return pd.DataFrame({"gap": table.max(axis=1), "rival": table.idxmax(axis=1)})


def _near_the_best(own: pd.DataFrame) -> Acceptance:
    gaps = behind(own, RIVALS)
    asked = f"NLPD behind the best of tuned fit and peers, median over sets: at most {CLOSE}"
    if gaps.empty:
        return Acceptance(asked, "nothing to compare with", None)
    worst = gaps[gaps["gap"] > CLOSE].sort_values("gap", ascending=False)
    misses = tuple(
        f"{task}: {_number(gap)} nats a target behind {WORDS[rival]}" for task, gap, rival in worst.itertuples()
    )
    middle = float(gaps["gap"].median())
    return Acceptance(asked, f"{middle:.3f} over {len(gaps)} sets", middle <= CLOSE, misses)


def _not_behind_single(own: pd.DataFrame) -> Acceptance:
    gaps = behind(own, ("gp_per_output",))
    asked = f"no set behind a GP per output by more than {CLOSE}"
    if gaps.empty:
        return Acceptance(asked, "nothing to compare with", None)
    bad = gaps[gaps["gap"] > CLOSE]["gap"].sort_values(ascending=False)
    misses = tuple(f"{task}: {_number(gap)} nats a target behind a GP per output" for task, gap in bad.items())
    return Acceptance(
        asked, f"{len(bad)} of {len(gaps)} sets, at worst {_number(gaps['gap'].max())}", bool(bad.empty), misses
    )


def _coverage(own: pd.DataFrame) -> Acceptance:
    low, high = COVERED
    asked = (
        f"95 % intervals cover {low:.0%} to {high:.0%} on three quarters of the sets, and the diagnosis warns elsewhere"
    )
    default = own[(own["method"] == "default") & own["coverage"].notna()]
    if default.empty:
        return Acceptance(asked, "no intervals yet", None)
    each = default.groupby("task")["coverage"].median()
    outside = each[(each < low) | (each > high)]
    warned = {
        task: default.loc[default["task"] == task, "findings"].fillna("").ne("").mean() >= 0.5 for task in outside.index
    }
    misses = tuple(
        f"{task}: coverage {share:.3f}, and the diagnosis {'warns' if warned[task] else 'says nothing'}"
        for task, share in outside.items()
    )
    good = 1 - len(outside) / len(each)
    found = (
        f"{len(each) - len(outside)} of {len(each)} sets; a warning on {sum(warned.values())} of {len(outside)} others"
    )
    return Acceptance(asked, found, good >= COVERED_SHARE and all(warned.values()), misses)


def _converged(own: pd.DataFrame) -> Acceptance:
    default = own[own["method"] == "default"]
    asked = f"at least {CONVERGED_SHARE:.0%} of default fits end converged by the rule within their cap"
    if default.empty:
        return Acceptance(asked, "no fits yet", None)
    done = default["converged"].fillna("").eq("True")
    share = done.groupby(default["task"]).mean()
    misses = tuple(
        f"{task}: {value:.0%} of the fits converged" for task, value in share[share < CONVERGED_SHARE].items()
    )
    return Acceptance(asked, f"{done.mean():.0%} of {len(done)} fits", done.mean() >= CONVERGED_SHARE, misses)


def _deterministic(own: pd.DataFrame) -> Acceptance:
    wide = own[own["nlpd"].notna()].pivot(index=["task", "split"], columns="method", values="nlpd")
    asked = "the same fit again gives the same NLPD"
    if not {"default", "repeat"} <= set(wide.columns):
        return Acceptance(asked, "not run twice yet", None)
    both = wide[["default", "repeat"]].dropna()
    differ = both[both["default"] != both["repeat"]]
    misses = tuple(f"{task} (split {split}): differs when run again" for task, split in differ.index)
    return Acceptance(asked, f"{len(both) - len(differ)} of {len(both)} fits", bool(differ.empty), misses)


def _cpu(own: pd.DataFrame) -> Acceptance:
    asked = f"CPU seconds at most {TIMES:g} times those of the old default, median over sets"
    each = own[own["nlpd"].notna()].groupby(["task", "method"])["cpu_s"].median().unstack()
    if not {"default", "old"} <= set(each.columns):
        return Acceptance(asked, "nothing to compare with", None)
    ratio = (each["default"] / each["old"]).dropna()
    slow = ratio[ratio > TIMES].sort_values(ascending=False)
    misses = tuple(f"{task}: {value:.1f} times the CPU seconds of the old default" for task, value in slow.items())
    return Acceptance(
        asked, f"{ratio.median():.2f} times over {len(ratio)} sets", bool(ratio.median() <= TIMES), misses
    )


def _nlpd(scored: pd.DataFrame, roles: Mapping[str, list[str]]) -> Iterator[str]:
    for role, names in roles.items():
        own = scored[scored["task"].isin(names)]
        if own.empty:
            continue
        middle = own.groupby(["task", "method"])["nlpd"].median().unstack()
        yield f"## NLPD on the {role} sets"
        yield ""
        yield f"| set | {' | '.join(WORDS[m] for m in METHODS)} |"
        yield "|---|" + "---|" * len(METHODS)
        for name in [name for name in names if name in middle.index]:
            row = middle.loc[name].reindex(list(METHODS))
            best = row.min()
            cells = ["" if np.isnan(v) else f"**{_number(v)}**" if v == best else _number(v) for v in row]
            yield f"| {name} | {' | '.join(cells)} |"
        yield ""
        yield "The best of a row is bold. A cell is empty where a method does not suit the set, was not run, or failed."
        yield ""


def _whole(table: pd.DataFrame, tasks: Described) -> Iterator[str]:
    own = table[(table["status"] != "left out") & table["method"].isin(METHODS)]
    if own.empty:
        return
    yield "## The whole table"
    yield ""
    for name, (role, question) in tasks.items():
        rows = own[own["task"] == name]
        if rows.empty:
            continue
        yield f"**{name}** ({role}). {question} {_size(rows)}".rstrip()
        yield ""
        yield "| method | NLPD | error | coverage | CPU s | converged | splits |"
        yield "|---|---|---|---|---|---|---|"
        for method in [method for method in METHODS if (rows["method"] == method).any()]:
            yield _line(method, rows[rows["method"] == method])
        yield ""


def _size(rows: pd.DataFrame) -> str:
    known = rows.dropna(subset=["rows"])
    if known.empty:
        return ""
    N, P, D = (int(known.iloc[0][column]) for column in ("rows", "inputs", "outputs"))
    return f"Training rows: {N}; inputs: {P}; outputs: {D}."


def _line(method: str, rows: pd.DataFrame) -> str:
    failed = int((rows["status"] == "error").sum())
    told = rows["converged"].fillna("")
    converged = f"{int(told.eq('True').sum())} of {len(rows)}" if told.ne("").any() else ""
    splits = f"{len(rows) - failed}" + (f", {failed} failed" if failed else "")
    cells = [_spread(rows["nlpd"]), _spread(rows["error"]), _spread(rows["coverage"]), _spread(rows["cpu_s"], ".1f")]
    return f"| {WORDS[method]} | {' | '.join(cells)} | {converged} | {splits} |"


def _spread(values: pd.Series, form: str = ".3f") -> str:
    known = values.dropna()
    if known.empty:
        return ""
    middle, least, most = (_number(v, form) for v in (known.median(), known.min(), known.max()))
    return middle if len(known) == 1 else f"{middle} ({least} to {most})"


def _number(value: float, form: str = ".3f") -> str:
    """Rounded, and short where it is large."""
    return format(value, form if abs(value) < 1e3 else ".2g")


def _methods() -> Iterator[str]:
    yield from """## Who is who

- **default**: the constructor and `mogp.fit(model, data)`.
- **old default**: that of the first edition, 1000 steps of Adam(0.01) on all rows in the units of the data, from its
  start values.
- **tuned**: a few settings of the same model (latents, inducing points, rate); a validation set inside the training
  data chooses, and the chosen one is trained long on all of them. Test data are never read.
- **exact ICM**: `ExactLMC` of rank up to 3, where there are at most 1500 real targets.
- **GPflow, a GP per output**: GPR up to 1000 rows, SVGP with 100 points beyond, GPflow's own likelihoods for counts and
  classes.
- **GPyTorch, multitask**: its exact multitask GP up to 1500 targets, its variational LMC beyond; real targets only.
- **random forest**: 300 trees for each output; out-of-bag residuals give the spread.
- **linear model**: ridge, logistic or Poisson regression for each output, its penalty by validation.

Counts are Poisson in every method, ours and the peers', so that fits are compared and not likelihoods; where counts are
more spread than that, the intervals of all are too short, and coverage says so.

Peers standardise inputs and real targets, as their users do. They read a replica as one of further columns of zeros
and ones, and annotations as their majority. A run of every method is a process of its own.

`make bench-defaults` runs what is lacking and writes this page; it takes hours, and goes on where it was stopped. The
tasks are in `benchmarks/defaults/tasks.py`, a row for every run in `benchmarks/defaults/results.csv`. See
[speed](speed.md) for the time of a step.""".splitlines()


def main() -> None:
    """Write the page."""
    from defaults.tasks import TASKS

    parser = argparse.ArgumentParser(description="Write the page from the results.")
    parser.add_argument("--to", type=Path, default=PAGE)
    asked = parser.parse_args()
    described = {name: (task.role, task.question) for name, task in TASKS.items()}
    asked.to.write_text(page(read(results_file()), described).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {asked.to}")


if __name__ == "__main__":
    main()
