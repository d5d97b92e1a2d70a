"""Data sets of the book: `load(name)` gives the same typed object, be the data real, synthetic or a
stand-in.
"""

from mogp.datasets.annotate import annotate_classes, annotate_values
from mogp.datasets.catalogue import StandInWarning, load, names
from mogp.datasets.dataset import Dataset, Source
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.store import DataUnavailableError

__all__ = [
    "DataFormatError",
    "DataUnavailableError",
    "Dataset",
    "Source",
    "StandInWarning",
    "annotate_classes",
    "annotate_values",
    "load",
    "names",
]
