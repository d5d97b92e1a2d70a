"""Readers of whole data sets: a damaged copy of a real file is read or refused with a `DataFormatError`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mogp.datasets import DataFormatError
from mogp.datasets.packaged import PACKAGED
from mogp.datasets.registry import registry
from mogp.datasets.shapes import SHAPES, shape_of

sys.path.insert(0, str(Path(__file__).parent / "formats"))
from fuzz_targets import Target, mutant

LARGEST = 350_000
COUNT = max(5, int(os.environ.get("MOGP_FUZZ", "200")) // 40)
SMALLEST = {
    pattern: min(found, key=lambda file: file.bytes)
    for pattern in SHAPES
    if (found := [f for f in registry().values() if Path(f.path).match(pattern) and 0 < f.bytes < LARGEST])
}


@pytest.mark.parametrize("path", sorted({file.path for file in SMALLEST.values()}))
def test_damaged_copies_are_read_or_refused(path, shared_data, tmp_path, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    sound = PACKAGED[path]() if path in PACKAGED else (shared_data / path).read_bytes()
    target = Target(path, Path, (sound,), Path(path).suffix)
    copy, refused = tmp_path / Path(path).name, 0
    for number in range(COUNT):
        copy.write_bytes(mutant(target, number))
        try:
            shape_of(path, copy)
        except DataFormatError:
            refused += 1
    assert refused
