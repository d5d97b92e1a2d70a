"""`mogp data`: list the data sets, tell about one, fetch their files, verify them, say where they
are.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mogp.datasets.entry import Entry
from mogp.datasets.registry import DataFile

data_app = typer.Typer(no_args_is_help=True, help="Data sets: list, show, fetch, verify, where.")

_STYLES = dict.fromkeys(("cache", "mirror", "package", "generated"), "green") | {
    "corrupt": "red",
    "stand-in": "yellow",
}


@data_app.command("list")
def list_() -> None:
    """List the data sets, and where their files are: on this machine, in a package, or a stand-in
    at most.
    """
    from mogp.datasets.catalogue import CATALOGUE
    from mogp.datasets.registry import files

    table = Table(box=None, header_style="bold", expand=True)
    table.add_column("data set", min_width=max(map(len, CATALOGUE)))
    table.add_column("here", min_width=len("generated"))
    table.add_column("what it is", no_wrap=True, overflow="ellipsis", ratio=1)
    for name, entry in CATALOGUE.items():
        state = _here(entry, [_state(file)[0] for file in files(name)])
        table.add_row(name, _coloured(state), Text(entry.summary))
    Console().print(table)


@data_app.command()
def show(name: Annotated[str, typer.Argument(help="The data set.")]) -> None:
    """Tell about one data set: what it is, its options, licence, citation and files."""
    import inspect

    from mogp.datasets.catalogue import find
    from mogp.datasets.making import LICENCE
    from mogp.datasets.registry import files

    _known([name])
    entry, owned = find(name), files(name)
    options = ", ".join(f"{option}={default!r}" for option, default in entry.options.items())
    console = Console(soft_wrap=True)
    for line in (
        f'load("{name}"{", " if options else ""}{options})',
        inspect.getdoc(entry.load) or "",
        f"Private: {entry.private}." if entry.private else "",
        "Licence: " + ("; ".join(dict.fromkeys(file.licence for file in owned)) or LICENCE),
        *(f"Cite: {citation}" for citation in dict.fromkeys(file.citation for file in owned)),
    ):
        if line:
            console.print(line, end="\n\n", markup=False, highlight=False)
    for file in owned:
        _tell(console, file)


@data_app.command()
def fetch(
    names: Annotated[
        list[str] | None, typer.Argument(help="Data sets to fetch.", metavar="NAME")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Fetch every data set.")] = False,
) -> None:
    """Fetch the files of data sets into the cache, check them, and try whether the data sets load.

    Fails if one of them does not; files that another one can replace may be missing.
    """
    from mogp.datasets import store
    from mogp.datasets.catalogue import CATALOGUE, load
    from mogp.datasets.registry import files

    wanted = list(CATALOGUE) if everything else list(names or [])
    if not wanted:
        raise typer.BadParameter("name at least one data set, or use --all.")
    _known(wanted)
    console, failed = Console(soft_wrap=True), False
    for name in wanted:
        got = 0
        for file in files(name):
            with (
                contextlib.suppress(store.DataUnavailableError),
                console.status(f"fetching {file.path}"),
            ):
                store.fetch(file)
                got += 1
        try:
            with console.status(f"loading {name}"):
                load(name)
            what = (
                f"{got} of {len(files(name))} files"
                if files(name)
                else "generated, it has no files"
            )
            console.print(f"[green]ready[/]   {name}: {what}", highlight=False)
        except store.DataUnavailableError as problem:
            failed = True
            console.print(f"[red]absent[/]  {name}:", end=" ")
            console.print(str(problem), markup=False, highlight=False)
    if failed:
        raise typer.Exit(1)


@data_app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Only the files of these data sets.", metavar="NAME")
    ] = None,
) -> None:
    """Check every registered file on this machine against its checksum, parse it, and compare its
    shape.

    Fails if a file is corrupt, cannot be parsed or holds something else than the registry says.
    """
    from mogp.datasets import store
    from mogp.datasets.registry import files, registry
    from mogp.datasets.shapes import shape_of

    _known(names or [])
    owned = (
        registry().values()
        if not names
        else {file.path: file for name in names for file in files(name)}.values()
    )
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
            except store.DataUnavailableError as problem:
                detail = (
                    f"can only be read together with another file: {str(problem).splitlines()[0]}"
                )
        bad, absent = bad + (state == "corrupt"), absent + (state == "absent")
        console.print(f"{_coloured(f'{state:8}')} {file.path}", end="  ", highlight=False)
        console.print(detail, markup=False, highlight=False)
    console.print(
        f"{len(owned)} files: {len(owned) - bad - absent} sound, {absent} absent, {bad} corrupt"
    )
    if bad:
        raise typer.Exit(1)


@data_app.command()
def where(
    name: Annotated[str | None, typer.Argument(help="Only the files of this data set.")] = None,
) -> None:
    """Say which folders are looked in and, for each file, where it is."""
    from mogp.datasets import store
    from mogp.datasets.registry import files, registry

    if name is not None:
        _known([name])
    console = Console(soft_wrap=True)
    console.print(f"cache   {store.cache_folder()}", highlight=False)
    console.print(
        f"mirror  {store.mirror_folder() or 'none (set MOGP_DATA_MIRROR)'}", highlight=False
    )
    for file in registry().values() if name is None else files(name):
        _tell(console, file)
    if name is not None and not files(name):
        console.print(f"{name}: generated, it has no files", highlight=False)


def _here(entry: Entry, states: list[str]) -> str:
    """What the files of a data set amount to: alternatives may be absent as long as one is
    there.
    """
    if "corrupt" in states:
        return "corrupt"
    there = [state for state in states if state != "absent"]
    if there:
        return there[0]
    return "stand-in" if entry.standin else "generated"


def _tell(console: Console, file: DataFile) -> None:
    state, detail = _state(file)
    console.print(f"{file.path}: {_coloured(state)}", end=" ", highlight=False)
    console.print(detail, markup=False, highlight=False)


def _state(file: DataFile) -> tuple[str, str]:
    """`cache` or `mirror` and the path, `corrupt` and what is wrong, `package` and its name, or
    `absent`.
    """
    from mogp.datasets import store

    checked = [
        (place, path, store.check(path, file))
        for place, path in store.places(file)
        if path.is_file()
    ]
    corrupt = [problem for _, _, problem in checked if problem is not None]
    if corrupt:
        return "corrupt", "; ".join(corrupt)
    if checked:
        place, path, _ = checked[0]
        return place, str(path)
    return (
        ("package", file.package) if store.is_carried(file) else ("absent", file.url or file.note)
    )


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
