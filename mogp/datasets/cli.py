"""`mogp data`: list the data sets, fetch their files, verify them, say where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from mogp.datasets.entry import Entry
from mogp.datasets.registry import DataFile

data_app = typer.Typer(no_args_is_help=True, help="Data sets: list, fetch, verify, where.")

_STYLES = {"cache": "green", "mirror": "green", "generated": "green", "corrupt": "red", "stand-in": "yellow"}


@data_app.command("list")
def list_() -> None:
    """List the data sets: what loading each of them gives on this machine, its licence, what it is."""
    from mogp.datasets.catalogue import CATALOGUE
    from mogp.datasets.registry import files

    table = Table("data set", "here", "licence", "what it is", box=None, header_style="bold")
    for name, entry in CATALOGUE.items():
        owned = files(name)
        state = _here(entry, [_state(file)[0] for file in owned])
        licence = "; ".join(dict.fromkeys(file.licence for file in owned)) or "CC0-1.0"
        table.add_row(name, _coloured(state), licence, entry.summary)
    Console().print(table)


@data_app.command()
def fetch(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets to fetch.", metavar="NAME")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Fetch every data set.")] = False,
) -> None:
    """Fetch the files of data sets into the cache, and check them."""
    from mogp.datasets import store
    from mogp.datasets.catalogue import CATALOGUE
    from mogp.datasets.registry import files

    wanted = list(CATALOGUE) if everything else list(names or [])
    if not wanted:
        raise typer.BadParameter("name at least one data set, or use --all.")
    _known(wanted)
    console, missing = Console(soft_wrap=True), False
    for name in wanted:
        if not files(name):
            console.print(f"[green]generated[/] {name}: nothing to fetch")
        for file in files(name):
            try:
                with console.status(f"fetching {file.path}"):
                    found = store.fetch(file)
                console.print(f"[green]{found.place:9}[/] {name}: {found.path}")
            except store.DataUnavailableError as problem:
                missing = True
                console.print(f"[red]absent[/]    {name}:", end=" ")
                console.print(str(problem), markup=False, highlight=False)
    if missing:
        raise typer.Exit(1)


@data_app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Only the files of these data sets.", metavar="NAME")
    ] = None,
) -> None:
    """Check every registered file on this machine against its checksum, parse it, and compare its shape.

    Fails if a file is corrupt, cannot be parsed or holds something else than the registry says.
    """
    from mogp.datasets.registry import files, registry
    from mogp.datasets.shapes import shape_of

    _known(names or [])
    owned = registry().values() if not names else {file.path: file for name in names for file in files(name)}.values()
    console, bad, absent = Console(soft_wrap=True), 0, 0
    for file in owned:
        state, detail = _state(file)
        if state in {"cache", "mirror"}:
            try:
                with console.status(f"parsing {file.path}"):
                    detail = shape_of(file.path, Path(detail))
                if file.shape and detail != file.shape:
                    state, detail = "corrupt", f"{detail}; expected {file.shape}"
            except ValueError as problem:
                state, detail = "corrupt", str(problem)
        bad, absent = bad + (state == "corrupt"), absent + (state == "absent")
        console.print(f"{_coloured(f'{state:8}')} {file.path}", end="  ", highlight=False)
        console.print(detail, markup=False, highlight=False)
    console.print(f"{len(owned)} files: {len(owned) - bad - absent} sound, {absent} absent, {bad} corrupt")
    if bad:
        raise typer.Exit(1)


@data_app.command()
def where(name: Annotated[str | None, typer.Argument(help="Only the files of this data set.")] = None) -> None:
    """Say which folders are looked in and, for each file, where it is."""
    from mogp.datasets import store
    from mogp.datasets.registry import files, registry

    if name is not None:
        _known([name])
    console = Console(soft_wrap=True)
    console.print(f"cache   {store.cache_folder()}", highlight=False)
    console.print(f"mirror  {store.mirror_folder() or 'none (set MOGP_DATA_MIRROR)'}", highlight=False)
    for file in registry().values() if name is None else files(name):
        state, detail = _state(file)
        console.print(f"{file.path}: {_coloured(state)} {detail}", highlight=False)
    if name is not None and not files(name):
        console.print(f"{name}: generated, it has no files", highlight=False)


def _here(entry: Entry, states: list[str]) -> str:
    """What the files of a data set amount to: alternatives may be absent as long as one is there."""
    if "corrupt" in states:
        return "corrupt"
    there = [state for state in states if state != "absent"]
    if there:
        return there[0]
    return "stand-in" if entry.standin else "generated"


def _state(file: DataFile) -> tuple[str, str]:
    """`cache` or `mirror` and the path, `corrupt` and what is wrong, or `absent`."""
    from mogp.datasets import store

    present = [path for _, path in store.places(file) if path.is_file()]
    corrupt = [problem for path in present if (problem := store.check(path, file))]
    if corrupt:
        return "corrupt", "; ".join(corrupt)
    found = store.find(file)
    return (found.place, str(found.path)) if found else ("absent", "")


def _coloured(state: str) -> str:
    style = _STYLES.get(state.strip())
    return f"[{style}]{state}[/]" if style else state


def _known(names: list[str]) -> None:
    from mogp.datasets.catalogue import find

    for name in names:
        try:
            find(name)
        except ValueError as problem:
            raise typer.BadParameter(str(problem)) from None
