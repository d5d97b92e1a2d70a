"""What a chapter does with its results: show them, keep them, and check the document's claims."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from mogp import project
from mogp.book import display, figures, ledger, provenance, records
from mogp.book.display import Shown
from mogp.book.errors import CompanionError
from mogp.book.provenance import DataUse, HasSource
from mogp.book.sources import slug
from mogp.files import write_atomically, write_json

if TYPE_CHECKING:
    import pandas as pd

Data = HasSource | Sequence[HasSource] | None
"""What an artefact was made from: a loaded data set, several, or none."""

_FIGURES = ("figure", "algorithm", "finding")
_TABLES = ("table", "algorithm", "finding")
_LARGEST_SVG = 400_000


class Chapter:
    """A running chapter: settings for its profile, data, figures, tables and verdicts.

    Files go to `artefacts/<id>.svg|.png|.csv|.json` and `claims/<id>.json` in the folder named by
    `MOGP_CHAPTER_OUT` (`mogp run` sets it), otherwise in `interactive/<document>-<number>/` of the
    build folder.
    """

    def __init__(self, key: str, *, profile: str = "quick", seed: int = 0) -> None:
        if profile not in ledger.PROFILES:
            raise CompanionError(
                f"profile {profile!r} given to chapter {key}; choose one of"
                f" {', '.join(ledger.PROFILES)}."
            )
        self.key = key
        self.profile = profile
        self.seed = seed
        self.folder = _output_folder(key)
        self._uses: list[DataUse] = []
        self._loaded: list[dict[str, Any]] = []
        self._artefacts: dict[str, dict[str, Any]] = {}
        self._claims: dict[str, dict[str, Any]] = {}
        self._started = self._previous = time.perf_counter()
        self._note_run()
        from mogp.plotting.style import use_style

        use_style()

    def settings(
        self,
        *,
        smoke: Mapping[str, Any],
        quick: Mapping[str, Any],
        long: Mapping[str, Any],
        paper: Mapping[str, Any],
    ) -> SimpleNamespace:
        """The settings of the chosen profile; every profile must name the same settings."""
        tables = dict(zip(ledger.PROFILES, (smoke, quick, long, paper), strict=True))
        for name, table in tables.items():
            if table.keys() != quick.keys():
                differing = ", ".join(sorted(table.keys() ^ quick.keys()))
                raise CompanionError(
                    f"chapter {self.key}: profiles {name} and quick differ in the settings"
                    f" {differing}; give both."
                )
        return SimpleNamespace(**tables[self.profile])

    def load(self, name: str, *, instead_of: str = "", **options: Any) -> Any:
        """Load a data set, or its marked stand-in where it cannot be had, and remember it.

        Options go to `mogp.datasets.load`. `instead_of` names data that cannot be had, for which
        these stand in: figures and verdicts then say so.
        """
        from mogp import datasets

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", datasets.StandInWarning)
            dataset = datasets.load(name, stand_in="allow", **options)
        use = provenance.data_use(dataset)
        self._loaded.append(
            {**use.note, "options": {key: repr(value) for key, value in options.items()}}
        )
        self._note_run()
        if instead_of and dataset.source == "real":
            return replace(dataset, source="stand-in", instead_of=instead_of)
        return dataset

    @contextmanager
    def figure(
        self,
        identifier: str,
        *,
        nrows: int = 1,
        ncols: int = 1,
        figsize: tuple[float, float] | None = None,
        data: Data = None,
        partial: str = "",
        alt: str = "",
        **subplots: Any,
    ) -> Iterator[Any]:
        """Draw a figure of the ledger: yields its Axes, then saves and shows it.

        There is an array of Axes for several. `partial` says what of the document's figure is
        missing; `alt` describes it to a screen reader; further options go to
        `matplotlib.pyplot.subplots`. A figure made from a stand-in says so on its face.
        """
        import matplotlib.pyplot as plt

        row, uses = self._begin(identifier, _FIGURES, data)
        figure, axes = plt.subplots(nrows, ncols, figsize=figsize, **subplots)
        try:
            yield axes
            standins = [use for use in uses if use.source == "stand-in"]
            if standins:
                figures.say_below(figure, f"Drawn from {provenance.describe(standins)}.")
            svg, png = figures.render(figure, "svg"), figures.render(figure, "png")
        finally:
            plt.close(figure)
        write_atomically(self.folder / "artefacts" / f"{identifier}.svg", svg)
        write_atomically(self.folder / "artefacts" / f"{identifier}.png", png)
        alt = alt or row.title
        kept = self._keep(
            row, uses, partial, files=[f"{identifier}.svg", f"{identifier}.png"], alt=alt
        )
        image, mime = (svg, "image/svg+xml") if len(svg) <= _LARGEST_SVG else (png, "image/png")
        page = display.artefact_html(row, display.picture_html(image, mime, alt), kept)
        display.show(Shown(page, display.artefact_text(row, "", kept), png))

    def table(
        self, identifier: str, frame: pd.DataFrame, *, data: Data = None, partial: str = ""
    ) -> None:
        """Keep a table of the ledger as CSV and show it.

        Recorded tables of larger runs are folded below it. `partial` says what of the document's
        table is missing.
        """
        import pandas as pd

        row, uses = self._begin(identifier, _TABLES, data)
        if not isinstance(frame, pd.DataFrame):
            raise CompanionError(
                f"table {identifier}: got {type(frame).__name__}, expected a pandas DataFrame."
            )
        labelled = not isinstance(frame.index, pd.RangeIndex)
        path = self.folder / "artefacts" / f"{identifier}.csv"
        write_atomically(path, frame.to_csv(index=labelled, lineterminator="\n"))
        kept = self._keep(row, uses, partial, files=[path.name], alt=row.title)
        shown = display.table_html(frame, index=labelled)
        for record in records.larger(self.key, self.profile):
            earlier = record.tables.get(identifier)
            if earlier is not None and earlier.read_text("utf-8") != path.read_text("utf-8"):
                table = display.table_html(record.table(identifier), index=False)
                shown += display.folded(record.label, table)
        page = display.artefact_html(row, f'<div class="mogp-table">{shown}</div>', kept)
        text = display.table_text(frame, index=labelled)
        display.show(Shown(page, display.artefact_text(row, text, kept)))

    def claim(
        self, identifier: str, *, holds: bool, measured: str, note: str = "", data: Data = None
    ) -> None:
        """Record whether a claim of the ledger holds, with what was measured, and show the verdict.

        Without `data`, the verdict rests on the data of those artefacts of the claim that were
        already produced; with `data=()` on none, such as one on printed numbers.
        """
        row = ledger.claim(identifier)
        documents = {row.document, *(ledger.artefact(about).document for about in row.about)}
        if self._document not in documents:
            raise CompanionError(
                f"claim {identifier} is about {', '.join(sorted(documents))}; chapter {self.key}"
                " cannot decide it."
            )
        if identifier in self._claims:
            raise CompanionError(
                f"claim {identifier} was already decided in this run of {self.key}; decide it once."
            )
        uses = self._uses_of(row.about) if data is None else self._use(data)
        verdict = {
            "id": identifier,
            "chapter": self.key,
            "holds": _as_bool(identifier, holds),
            "measured": measured,
            "note": note,
            **self._provenance(uses),
        }
        write_json(self.folder / "claims" / f"{identifier}.json", verdict)
        self._claims[identifier] = verdict
        earlier = [
            (r.label, r.claims[identifier])
            for r in records.larger(self.key, self.profile)
            if identifier in r.claims
        ]
        display.show(display.claim_box(row, verdict, provenance.describe(uses), earlier))

    def recorded(self, profile: str) -> records.RunRecord | None:
        """The recorded run of this chapter at another profile; None if there is none."""
        return records.recorded(self.key).get(profile)

    def finish(self) -> None:
        """Show what this run produced and what of the ledger it did not."""
        rows = [
            (
                identifier,
                f"{row.label}: {row.title}",
                "produced" if identifier in self._artefacts else "not produced",
            )
            for identifier, row in ledger.artefacts().items()
            if identifier in self._artefacts or row.notebook == self.key
        ]
        rows += [
            (
                identifier,
                ledger.claim(identifier).claim,
                display.verdict_word(verdict["holds"]),
            )
            for identifier, verdict in self._claims.items()
        ]
        title = (
            f"Chapter {self.key}, {self.profile} profile, seed {self.seed}:"
            f" {time.perf_counter() - self._started:.1f} s"
        )
        display.show(display.summary_table(title, rows))

    @property
    def _document(self) -> str:
        return self.key.split("/")[0]

    def _begin(
        self, identifier: str, kinds: Sequence[str], data: Data
    ) -> tuple[ledger.Artefact, list[DataUse]]:
        """Check that this chapter may produce the artefact now, in this form and from this data."""
        row = ledger.artefact(identifier)
        if row.notebook != self.key:
            raise CompanionError(
                f"{identifier} belongs to chapter {row.notebook}, not to {self.key} (column"
                " notebook of artefacts.csv)."
            )
        if row.kind not in kinds:
            method = "table" if row.kind == "table" else "figure"
            raise CompanionError(
                f"{identifier} is a {row.kind} in the ledger; use chapter.{method}."
            )
        if identifier in self._artefacts:
            raise CompanionError(
                f"{identifier} was already produced in this run of {self.key}; produce it once."
            )
        uses = self._use(data)
        if row.needs_data and not uses:
            raise CompanionError(
                f"{identifier} shows {row.data} in the ledger; pass data=, the data set that"
                " chapter.load returned, so that a stand-in is never taken for it."
            )
        return row, uses

    def _use(self, data: Data) -> list[DataUse]:
        if data is None:
            return []
        return [
            provenance.data_use(item) for item in (data if isinstance(data, Sequence) else [data])
        ]

    def _uses_of(self, identifiers: Sequence[str]) -> list[DataUse]:
        found = [
            DataUse(**use)
            for i in identifiers
            if i in self._artefacts
            for use in self._artefacts[i]["data"]
        ]
        return list(dict.fromkeys(found))

    def _keep(
        self, row: ledger.Artefact, uses: list[DataUse], partial: str, *, files: list[str], alt: str
    ) -> dict[str, Any]:
        seconds = time.perf_counter() - self._previous
        kept = {
            "id": row.id,
            "chapter": self.key,
            "partial": partial,
            "files": files,
            "alt": alt,
            **self._provenance(uses),
            "seconds": round(seconds, 3),
        }
        write_json(self.folder / "artefacts" / f"{row.id}.json", kept)
        self._artefacts[row.id] = kept
        self._previous = time.perf_counter()
        return kept

    def _provenance(self, uses: Sequence[DataUse]) -> dict[str, Any]:
        return {
            "profile": self.profile,
            "seed": self.seed,
            "data": [use.note for use in uses],
            "standin": any(use.source == "stand-in" for use in uses),
            "versions": dict(provenance.versions()),
            "date": provenance.now(),
        }

    def _note_run(self) -> None:
        """Tell the runner which chapter this is and what it loaded, from the first cell on."""
        note = {
            "chapter": self.key,
            "profile": self.profile,
            "seed": self.seed,
            "data": self._loaded,
        }
        write_json(self.folder / "chapter.json", note)


def _output_folder(key: str) -> Path:
    """The folder for this run, empty of earlier results."""
    named = os.environ.get("MOGP_CHAPTER_OUT")
    if named:
        folder = Path(named)
    else:
        try:
            folder = project.build_folder() / "interactive" / slug(key)
        except FileNotFoundError:
            folder = Path.cwd() / "mogp-output" / slug(key)
    for part in ("artefacts", "claims"):
        shutil.rmtree(folder / part, ignore_errors=True)
        (folder / part).mkdir(parents=True)
    return folder


def _as_bool(identifier: str, holds: object) -> bool:
    import numpy as np

    if not isinstance(holds, bool | np.bool_):
        raise CompanionError(
            f"claim {identifier}: holds={holds!r} is {type(holds).__name__}; expected a bool, e.g."
            " bool((a < b).all())."
        )
    return bool(holds)
