"""The sets of points with many labels that Panos, chapter 4, uses: sizes and files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["CORPORA", "Corpus", "Size"]

LARGE = 100_000
"""Sets of more rows than this are kept in single precision, and have smaller stand-ins."""


class Size(NamedTuple):
    """How large a set is.

    Attributes:
        P: inputs.
        K: labels.
        train: rows to train on (N).
        test: rows to test on (N*).
        labels: of a row, on average (K̄).
        words: non-zero inputs of a row, on average.
    """

    P: int
    K: int
    train: int
    test: int
    labels: float
    words: float


@dataclass(frozen=True)
class Corpus:
    """A set of points with many labels.

    Attributes:
        name: it is loaded by.
        about: what a point and its labels are.
        size: as table 4.4 prints it.
        files: registered paths: rows to train on, rows to test on and, of Mulan's format, the
            labels.
        signal: share of a stand-in's inputs that come from the row's labels.
        feature: what an input is.
        binary: whether inputs are 0 or 1.
    """

    name: str
    about: str
    size: Size
    files: tuple[str, ...]
    signal: float
    feature: str = "word"
    binary: bool = False

    @property
    def dense(self) -> bool:
        """Whether every row has all inputs."""
        return self.size.words == self.size.P

    @property
    def large(self) -> bool:
        """Whether double precision would be a waste."""
        return self.size.train + self.size.test > LARGE


def _extreme(name: str) -> tuple[str, str]:
    return f"xc/{name}_train.txt", f"xc/{name}_test.txt"


def _mulan(path: str, suffix: str = ".arff") -> tuple[str, str, str]:
    return f"{path}-train{suffix}", f"{path}-test{suffix}", f"{path}.xml"


CORPORA = (
    Corpus(
        "bibtex",
        "tags of bibliographic entries from the words in them",
        Size(1836, 159, 4880, 2515, 2.40, 68.7),
        _mulan("bibtex/bibtex"),
        signal=0.18,
        binary=True,
    ),
    Corpus(
        "delicious",
        "bookmarks of web pages from the words on them",
        Size(500, 983, 12920, 3185, 19.03, 18.2),
        ("delicious/train.txt", "delicious/test.txt"),
        signal=0.9,
        binary=True,
    ),
    Corpus(
        "mediamill",
        "concepts in video shots from visual features",
        Size(120, 101, 30993, 12914, 4.38, 120),
        _extreme("mediamill"),
        signal=0.8,
        feature="feature",
    ),
    Corpus(
        "eurlex",
        "subjects of documents of EU law from the words in them",
        Size(5000, 3993, 15539, 3809, 5.31, 236.7),
        ("eurlex/train.txt", "eurlex/test.txt"),
        signal=0.25,
    ),
    Corpus(
        "rcv1",
        "topics of Reuters news from the words in them",
        Size(47236, 2456, 623847, 155962, 4.79, 76.7),
        _extreme("rcv1"),
        signal=0.5,
    ),
    Corpus(
        "wiki10",
        "tags of Wikipedia articles from the words in them",
        Size(101938, 30938, 14146, 6616, 18.64, 673.4),
        _extreme("wiki10"),
        signal=0.4,
    ),
    Corpus(
        "amazoncat",
        "categories of products from reviews of them",
        Size(203882, 13330, 1186239, 306782, 5.04, 71.1),
        _extreme("amazoncat"),
        signal=0.6,
    ),
    Corpus(
        "delicious-large",
        "bookmarks of web pages from the words on them",
        Size(782585, 205443, 196606, 100095, 75.54, 301.2),
        _extreme("delicious-large"),
        signal=0.2,
    ),
    Corpus(
        "wikilshtc",
        "categories of Wikipedia articles from the words in them",
        Size(1617899, 325056, 1778351, 587084, 3.19, 42.1),
        _extreme("wikilshtc"),
        signal=0.6,
    ),
    Corpus(
        "corel5k",
        "words for pictures from clusters of their regions",
        Size(499, 374, 4500, 500, 3.52, 8.3),
        _mulan("mulan_extra/Corel5k", "-sparse.arff"),
        signal=0.6,
        feature="cluster",
        binary=True,
    ),
    Corpus(
        "yeast",
        "functions of genes from expression levels",
        Size(103, 14, 1500, 917, 4.24, 103),
        _mulan("mulan_extra/yeast"),
        signal=0.5,
        feature="level",
    ),
)
