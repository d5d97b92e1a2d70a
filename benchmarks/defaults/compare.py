"""Candidate recipes side by side: python -m defaults.compare LABEL [LABEL …] ("results" is the study's own file).

Medians over the splits that all of them have, of the default fit unless --method says otherwise.
"""

from __future__ import annotations

import argparse

import pandas as pd

from defaults.results import read, results_file

SCORES = ("nlpd", "error", "coverage", "cpu_s", "converged")


def compared(labels: list[str], method: str) -> pd.DataFrame:
    """A row a task, and for each score a column a label; "splits" is how many all of them finished."""
    tables = {}
    for label in labels:
        table = read(results_file(None if label == "results" else label))
        table = table[(table["method"] == method) & table["nlpd"].notna()].set_index(["task", "split"])
        tables[label] = table.assign(converged=(table["converged"] == "True").astype(float))
    shared = None
    for table in tables.values():
        shared = table.index if shared is None else shared.intersection(table.index)
    parts = {label: table.loc[shared, list(SCORES)].groupby("task").median() for label, table in tables.items()}
    both = pd.concat(parts, axis=1).swaplevel(axis=1)
    both = both[[(name, label) for name in SCORES for label in labels]]
    both.insert(0, ("splits", ""), pd.Series(1, shared).groupby("task").sum())
    return both


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare candidate recipes.")
    parser.add_argument("labels", nargs="+")
    parser.add_argument("--method", default="default")
    asked = parser.parse_args()
    with pd.option_context("display.width", 220, "display.max_columns", 60, "display.float_format", "{:.3f}".format):
        print(compared(asked.labels, asked.method))
