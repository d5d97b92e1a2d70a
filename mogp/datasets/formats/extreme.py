"""The text format of the Extreme Classification Repository: a header `N P K`, then `l1,l2 f1:v1 f2:v2` a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

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
    """Features `[N, P]` (CSR, float64) and labels `[N, K]` (CSR of ones, uint8), or the first `rows` rows of them.

    Indices count from zero and come in any order, none twice; a row may lack labels (it then starts with a blank),
    features or both.
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

    What a header promises and the file does not hold is only known at the end: an error may follow good blocks.
    """
    with open(path, "rb") as file:
        yield from _blocks(file, path, chunk, None)


def _blocks(file: BinaryIO, path: Path | str, chunk: int, rows: int | None) -> Iterator[tuple[csr_matrix, csr_matrix]]:
    if chunk < 1 or (rows is not None and rows < 1):
        raise ValueError(f"chunk={chunk} and rows={rows} must be 1 or more.")
    first = next(_lines(file, path, 1), "")
    sizes = naturals(first.split())
    if sizes is None or len(sizes) != 3 or (sizes > LARGEST_SIZE).any() or not sizes[0]:
        raise DataFormatError(path, f"{shown(first.strip())}, expected the numbers of rows, features and labels", 1)
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
                raise DataFormatError(path, f"a row after the {N} that the header announces", number)


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


def _parse(lines: Sequence[str], path: Path | str, start: int, P: int, K: int) -> tuple[csr_matrix, csr_matrix]:
    """The rows of a block, which starts at line `start`; the line of a fault is looked for once one is known."""
    result = _matrices(lines, P, K)
    if isinstance(result, tuple):
        return result
    for number, line in enumerate(lines, start):
        problem = _matrices([line], P, K)
        if isinstance(problem, str):
            raise DataFormatError(path, problem, number)
    raise DataFormatError(path, result, start)


def _matrices(lines: Sequence[str], P: int, K: int) -> tuple[csr_matrix, csr_matrix] | str:
    """X and Y of some rows, or what is wrong with one of them."""
    from scipy.sparse import csr_matrix

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
    places, _, numbers = zip(*(pair.partition(":") for pair in pairs), strict=True) if pairs else ((), (), ())
    label_at, at, values = naturals(labels), naturals(places), floats(numbers)
    if label_at is None or (label_at >= K).any():
        return f"labels must be indices from 0 to {K - 1} between commas"
    if at is None or (at >= P).any():
        return f"features must be index:value with indices from 0 to {P - 1}"
    if values is None:
        return "values must be finite numbers"
    X = csr_matrix((values, at, starts), shape=(len(lines), P))
    Y = csr_matrix((np.ones(len(labels), np.uint8), label_at, label_starts), shape=(len(lines), K))
    for matrix, what in ((X, "feature"), (Y, "label")):
        matrix.sort_indices()
        if repeated_row(matrix) is not None:
            return f"a {what} twice"
    return X, Y


def read_split(path: Path | str, columns: int, size: int | None = None) -> NDArray[np.int64]:
    """`[N, F]` row numbers from zero: a column for each of F splits, in the file counted from one.

    Args:
        path: a file of N lines of F numbers.
        columns: the expected F.
        size: rows of the data that is split; None leaves the upper end unchecked.
    """
    return parse_split(read_content(path), path, columns, size)


def parse_split(content: bytes, name: Path | str, columns: int, size: int | None = None) -> NDArray[np.int64]:
    """`read_split` of `content`, the bytes of the file called `name` in errors."""
    numbers = parse_numbers(content, name, delimiter=None, columns=columns)
    largest = 2**53 if size is None else size
    fits = (numbers >= 1) & (numbers <= largest) & (numbers == np.floor(numbers))
    if not fits.all():
        row, column = np.argwhere(~fits)[0]
        problem = f"{numbers[row, column]:g} in column {column + 1}, expected a row number from 1 to {largest}"
        raise DataFormatError(name, problem, _line_of_row(content, row))
    split = numbers.astype(np.int64) - 1
    ordered = np.sort(split, axis=0)
    twice = (ordered[1:] == ordered[:-1]).any(axis=0)
    if twice.any():
        raise DataFormatError(name, f"column {np.flatnonzero(twice)[0] + 1} holds a row number twice")
    return split


def _line_of_row(content: bytes, row: int) -> int:
    filled = [number for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    return filled[row]
