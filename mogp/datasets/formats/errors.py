"""The one exception of the parsers."""

from __future__ import annotations

from pathlib import Path


class DataFormatError(ValueError):
    """A file does not hold what its format promises; the message names the file, the line or
    member, the problem.
    """

    def __init__(self, path: Path | str, problem: str, line: int | None = None) -> None:
        where = str(path) if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {problem}")
        self.path, self.problem, self.line = str(path), problem, line

    def __reduce__(self) -> tuple[type[DataFormatError], tuple[str, str, int | None]]:
        return DataFormatError, (self.path, self.problem, self.line)
