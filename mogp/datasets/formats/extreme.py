"""The text format of the Extreme Classification Repository: a header `N P K`, then
`l1,l2 f1:v1 f2:v2` a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.formats.delimited import parse_numbers
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.formats.sparse import repeated_row
from mogp.datasets.formats.text import floats, naturals, read_content, shown

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

LONGEST_LINE = 2**24
"""Most bytes of a line."""

LARGEST_SIZE = 2**31 - 1
"""Most rows, features or labels that a header may declare."""


def read_extreme(path: Path | str, rows: int | None = None) -> tuple[csr_matrix, csr_matrix]:
    """Features `[N, P]` (CSR, float64) and labels `[N, K]` (CSR of ones, uint8), or the first
    `rows` rows of them.

    Indices count from zero and come in any order, none twice; a row may lack labels (it then starts
    with a blank), features or both.
    """
    from scipy.sparse import vstack

    with open(path, "rb") as file:
        blocks = list(_blocks(file, path, 10_000, rows))
    if len(blocks) == 1:
        return blocks[0]
    X, Y = zip(*blocks, strict=True)
    return vstack(X, format="csr"), vstack(Y, format="csr")


def iter_extreme(path: Path | str, chunk: int = 10_000) -> Iterator[tuple[csr_matrix, csr_matrix]]:
    """`read_extreme` in blocks of `chunk` rows, one at a time in memory.

    What a header promises and the file does not hold is only known at the end: an error may follow
    good blocks.
    """
    with open(path, "rb") as file:
        yield from _blocks(file, path, chunk, None)


def _blocks(
    file: BinaryIO, path: Path | str, chunk: int, rows: int | None
) -> Iterator[tuple[csr_matrix, csr_matrix]]:
    if chunk < 1 or (rows is not None and rows < 1):
        raise ValueError(f"chunk={chunk} and rows={rows} must be 1 or more.")
    first = next(_lines(file, path, 1), "")
    sizes = naturals(first.split())
    if sizes is None or len(sizes) != 3 or (sizes > LARGEST_SIZE).any() or not sizes[0]:
        raise DataFormatError(
            path, f"{shown(first.strip())}, expected the numbers of rows, features and labels", 1
        )
    N, P, K = sizes.tolist()
    wanted = N if rows is None else min(N, rows)
    lines = _lines(file, path, 2)
    done = 0
    while done < wanted:
        block = list(islice(lines, min(chunk, wanted - done)))
        if not block:
            raise DataFormatError(path, f"{done} rows, the header announces {N}")
        yield _parse(block, path, done + 2, P, K)
        done += len(block)
    if wanted == N:
        for number, line in enumerate(lines, N + 2):
            if line.strip():
                raise DataFormatError(
                    path, f"a row after the {N} that the header announces", number
                )


def _lines(file: BinaryIO, path: Path | str, start: int) -> Iterator[str]:
    """Lines of bounded length from where the file stands, the first of which has number `start`."""
    number = start
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise DataFormatError(path, f"a line of more than {LONGEST_LINE} bytes", number)
        if not line.isascii():
            raise DataFormatError(path, "bytes that are not ASCII", number)
        yield line.decode("ascii")
        number += 1


def _parse(
    lines: Sequence[str], path: Path | str, start: int, P: int, K: int
) -> tuple[csr_matrix, csr_matrix]:
    """The rows of a block, which starts at line `start`; the line of a fault is looked for once one
    is known.
    """
    result = _plain(lines, P, K) or _matrices(lines, P, K)
    if isinstance(result, tuple):
        return result
    for number, line in enumerate(lines, start):
        problem = _matrices([line], P, K)
        if isinstance(problem, str):
            raise DataFormatError(path, problem, number)
    raise DataFormatError(path, result, start)


_NUMBER = rb"[-+]?(?:[0-9]++(?:[.][0-9]*+)?|[.][0-9]++)(?:[eE][-+]?[0-9]++)?"
_INDEX = rb"[0-9]{1,18}+"
_LABELS = _INDEX + rb"(?:," + _INDEX + rb")*+"
_FEATURES = rb"(?:[ \t]++" + _INDEX + rb":" + _NUMBER + rb")*+"
_ROWS = re.compile(rb"(?:(?:" + _LABELS + rb")?" + _FEATURES + rb"[ \t]*+\r?\n)*+")


def _plain(lines: Sequence[str], P: int, K: int) -> tuple[csr_matrix, csr_matrix] | str | None:
    """X and Y of rows as the repository writes them, all at once; None if one is written in another
    way.
    """
    block = "".join(lines).encode("ascii")
    block = block if block.endswith(b"\n") else block + b"\n"
    if not _ROWS.fullmatch(block):
        return None
    text = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    firsts = text[np.r_[0, ends[:-1] + 1]]
    labelled = (firsts >= ord("0")) & (firsts <= ord("9"))
    in_row = {
        mark: np.diff(np.searchsorted(np.flatnonzero(text == ord(mark)), ends), prepend=0)
        for mark in ",:"
    }
    label_counts, counts = in_row[","] + labelled, in_row[":"]
    numbers = np.fromstring(block.translate(bytes.maketrans(b",:", b"  ")).decode("ascii"), sep=" ")
    sizes = label_counts + 2 * counts
    place = np.arange(len(numbers)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_label = place < np.repeat(label_counts, sizes)
    at, values = numbers[~is_label].reshape(-1, 2).T
    return _checked(numbers[is_label], label_counts, at, values, counts, P, K)


def _matrices(lines: Sequence[str], P: int, K: int) -> tuple[csr_matrix, csr_matrix] | str:
    """X and Y of some rows, written in any of the ways allowed, or what is wrong with one of
    them.
    """
    labels: list[str] = []
    pairs: list[str] = []
    label_starts, starts = [0], [0]
    for line in lines:
        words = line.split()
        if words and ":" not in words[0] and not line[0].isspace():
            labels.extend(words.pop(0).split(","))
        pairs.extend(words)
        label_starts.append(len(labels))
        starts.append(len(pairs))
    places, _, numbers = (
        zip(*(pair.partition(":") for pair in pairs), strict=True) if pairs else ((), (), ())
    )
    label_at, at, values = naturals(labels), naturals(places), floats(numbers)
    if label_at is None:
        return _label_problem(K)
    if at is None:
        return _feature_problem(P)
    if values is None:
        return _VALUE_PROBLEM
    return _checked(label_at, np.diff(label_starts), at, values, np.diff(starts), P, K)


def _checked(
    label_at: NDArray[Any],
    label_counts: NDArray[np.int64],
    at: NDArray[Any],
    values: NDArray[np.float64],
    counts: NDArray[np.int64],
    P: int,
    K: int,
) -> tuple[csr_matrix, csr_matrix] | str:
    """X and Y from indices and values row by row and how many each row has, or what is wrong with
    one of them.
    """
    from scipy.sparse import csr_matrix

    if (label_at >= K).any():
        return _label_problem(K)
    if (at >= P).any():
        return _feature_problem(P)
    if not np.isfinite(values).all():
        return _VALUE_PROBLEM
    ones = np.ones(len(label_at), np.uint8)
    X = csr_matrix(
        (values, at.astype(np.int64), np.r_[0, np.cumsum(counts)]), shape=(len(counts), P)
    )
    Y = csr_matrix(
        (ones, label_at.astype(np.int64), np.r_[0, np.cumsum(label_counts)]), shape=(len(counts), K)
    )
    for matrix, what in ((X, "feature"), (Y, "label")):
        matrix.sort_indices()
        if repeated_row(matrix) is not None:
            return f"a {what} twice"
    return X, Y


_VALUE_PROBLEM = "values must be finite numbers"


def _label_problem(K: int) -> str:
    return f"labels must be indices from 0 to {K - 1} between commas"


def _feature_problem(P: int) -> str:
    return f"features must be index:value with indices from 0 to {P - 1}"


def read_split(path: Path | str, columns: int, size: int | None = None) -> NDArray[np.int64]:
    """`[N, F]` row numbers from zero: a column for each of F splits, in the file counted from one.

    Args:
        path: a file of N lines of F numbers.
        columns: the expected F.
        size: rows of the data that is split; None leaves the upper end unchecked.
    """
    return parse_split(read_content(path), path, columns, size)


def parse_split(
    content: bytes, name: Path | str, columns: int, size: int | None = None
) -> NDArray[np.int64]:
    """`read_split` of `content`, the bytes of the file called `name` in errors."""
    numbers = parse_numbers(content, name, delimiter=None, columns=columns)
    largest = 2**53 if size is None else size
    fits = (numbers >= 1) & (numbers <= largest) & (numbers == np.floor(numbers))
    if not fits.all():
        row, column = np.argwhere(~fits)[0]
        problem = (
            f"{numbers[row, column]:g} in column {column + 1}, expected a row number from 1 to"
            f" {largest}"
        )
        raise DataFormatError(name, problem, _line_of_row(content, row))
    split = numbers.astype(np.int64) - 1
    ordered = np.sort(split, axis=0)
    twice = (ordered[1:] == ordered[:-1]).any(axis=0)
    if twice.any():
        raise DataFormatError(
            name, f"column {np.flatnonzero(twice)[0] + 1} holds a row number twice"
        )
    return split


def _line_of_row(content: bytes, row: int) -> int:
    filled = [number for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    return filled[row]
