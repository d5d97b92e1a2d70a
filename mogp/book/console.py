"""What the command line shows: progress of runs, failures, and the reproduction report."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from mogp.book.report import Report
from mogp.book.runner import Outcome, Watcher

_COLOURS = {
    "ran": "green",
    "unchanged": "bright_black",
    "failed": "red",
    "regenerated": "green",
    "partly regenerated": "cyan",
    "stand-in": "yellow",
    "not yet": "bright_black",
    "impossible": "red",
    "holds": "green",
    "does not hold": "red",
    "not checked": "bright_black",
    "needs download": "yellow",
}


class Progressing(Watcher):
    """A line for each running chapter on a terminal; a line at its start and at its end
    elsewhere.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tasks: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description:<14}"),
            BarColumn(24),
            TextColumn("cell {task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )

    def __enter__(self) -> Progressing:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def waiting(self, chapter: str) -> None:
        """Another run of the chapter is under way."""
        self._console.print(f"{chapter}: another run of it is under way, waiting")

    def started(self, chapter: str, cells: int, why: str) -> None:
        """A chapter starts."""
        self._tasks[chapter] = self._progress.add_task(chapter, total=cells)
        if not self._console.is_terminal:
            self._console.print(f"{chapter:<14} started ({why})")

    def reached(self, chapter: str, cell: int) -> None:
        """A cell of it starts."""
        self._progress.update(self._tasks[chapter], completed=cell + 1)

    def ended(self, outcome: Outcome) -> None:
        """It is over."""
        if outcome.chapter in self._tasks:
            self._progress.remove_task(self._tasks.pop(outcome.chapter))
        why = f" ({outcome.why})" if outcome.why else ""
        state = f"[{_COLOURS[outcome.state]}]{outcome.state:<9}[/]"
        self._console.print(
            f"{outcome.chapter:<14} {state} {outcome.seconds:6.1f} s{why}", highlight=False
        )


def show_failure(console: Console, outcome: Outcome) -> None:
    """The cell that failed and its traceback."""
    failure = outcome.failure
    if failure is None:
        return
    where = "" if failure.cell is None else f", cell {failure.cell + 1}"
    console.rule(f"[red]{outcome.chapter} failed{where}[/]", style="red")
    if failure.source:
        console.print(Padding(Syntax(failure.source, "python", theme="ansi_dark"), (0, 2)))
    console.print(Text.from_ansi(failure.traceback))


def show_report(console: Console, found: Report) -> None:
    """The counts first, then every artefact, then every claim."""
    published = found.published()
    statuses, verdicts = published.counts()
    for name, counts, total, own in (
        ("Artefacts", statuses, len(published.artefacts), len(found.artefacts)),
        ("Claims", verdicts, len(published.claims), len(found.claims)),
    ):
        listed = ", ".join(f"{_coloured(word)} {count}" for word, count in counts.items())
        console.print(
            f"[bold]{name}[/]: {total}: {listed} (and {own - total} findings of our own)",
            highlight=False,
        )
    artefacts = _table("artefact", "status", "chapter", "profile", "data", "why")
    for row in found.artefacts:
        artefacts.add_row(
            row.id,
            _coloured(row.status),
            row.chapter,
            row.profile,
            escape(row.data),
            escape(row.why),
        )
    claims = _table("claim", "verdict", "published", "measured", "profile", "data", "note")
    for claim in found.claims:
        shown = (claim.published, claim.measured, claim.profile, claim.data, claim.note)
        claims.add_row(claim.id, _coloured(claim.verdict), *map(escape, shown))
    console.print(artefacts, claims)


def _table(first: str, second: str, *others: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in (first, second):
        table.add_column(name, no_wrap=True)
    for name in others:
        table.add_column(
            name, ratio=1 if name in ("why", "published", "measured", "note") else None
        )
    return table


def _coloured(word: str) -> str:
    return f"[{_COLOURS[word]}]{word}[/]"
