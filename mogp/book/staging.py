"""A run is staged beside the results, and takes the place of the old one in a rename."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from mogp.book.results import result_folder
from mogp.book.sources import slug

__all__ = ["new_stage", "previous_folder", "recover", "swap_in"]


def new_stage(build: Path, key: str) -> Path:
    """An empty folder for a run of the chapter."""
    return Path(tempfile.mkdtemp(prefix=_prefix(key), dir=build / "chapters"))


def recover(build: Path, key: str) -> None:
    """Tidy up after a run that was killed.

    Its staging folders go, and a result caught in the swap comes back.
    """
    for stale in (build / "chapters").glob(f"{_prefix(key)}*"):
        shutil.rmtree(stale, ignore_errors=True)
    final, previous = result_folder(build, key), previous_folder(build, key)
    if previous.exists():
        if final.exists():
            shutil.rmtree(previous)
        else:
            previous.rename(final)


def swap_in(build: Path, key: str, stage: Path) -> None:
    """Put a staged run in the place of the last one."""
    final, previous = result_folder(build, key), previous_folder(build, key)
    if final.exists():
        final.rename(previous)
    stage.rename(final)
    shutil.rmtree(previous, ignore_errors=True)


def _prefix(key: str) -> str:
    return f".{slug(key)}.stage-"


def previous_folder(build: Path, key: str) -> Path:
    """Where the last run stands for the instant in which a newer one takes its place."""
    return build / "chapters" / f".{slug(key)}.previous"
