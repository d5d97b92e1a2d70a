"""Files made in a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def written(tmp_path) -> Callable[..., Path]:
    """Writes bytes to a file of the test and gives its path."""

    def write(content: bytes, name: str = "input") -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write
