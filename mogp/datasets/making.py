"""Short ways to make a `Dataset`: real ones take licence and citation from the registry, synthetic
ones are ours.
"""

from __future__ import annotations

from typing import Any

from mogp.datasets.dataset import Array, Dataset, Source
from mogp.datasets.registry import files

LICENCE = "CC0-1.0"
"""Of everything that is generated."""


def made(name: str, source: Source, description: str, citation: str = "", **fields: Any) -> Dataset:
    """The data set `name`, whose licence and citation follow from its source.

    `description` says what the real data are: a stand-in's begins with the words that it is one.
    `citation` is for synthetic data: the figure or section of the document that describes the
    generator.
    """
    if source == "real":
        owned = files(name)
        licence = "; ".join(dict.fromkeys(file.licence for file in owned))
        citation = citation or "; ".join(dict.fromkeys(file.citation for file in owned))
    else:
        licence, citation = LICENCE, citation or "generated"
        if source == "stand-in":
            description = f"synthetic stand-in for: {description}"
    return Dataset(name, source, description, licence, citation, **fields)


def size(table: Array) -> str:
    """Rows and columns of a table as text: "133 x 3"."""
    return " x ".join(map(str, table.shape))
