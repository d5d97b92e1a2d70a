"""The `mogp` command: run chapters, build the book, read the reproduction report, fetch data, hand
out notebooks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from rich.console import Console


_BOOK_PACKAGES = (
    "filelock",
    "jupytext",
    "nbformat",
    "papermill",
    "sphinx",
    "jupyter_book",
    "yaml",
    "jinja2",
)


class _Commands(TyperGroup):
    """Commands whose users' mistakes are one line, not a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        from mogp.book.errors import CompanionError

        try:
            return super().invoke(ctx)
        except (CompanionError, OSError) as mistake:
            typer.secho(f"mogp: {mistake}", fg="red", err=True)
            raise typer.Exit(2) from None
        except ModuleNotFoundError as missing:
            if missing.name not in _BOOK_PACKAGES:
                raise
            advice = "pip install 'mogp-companion[book]'"
            typer.secho(
                f"mogp: this needs the package {missing.name}: {advice}", fg="red", err=True
            )
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.secho(
                "mogp: interrupted; the last good results are in place", fg="yellow", err=True
            )
            raise typer.Exit(130) from None


class _WithParameters(TyperCommand):
    """A command with options `-p NAME VALUE`, which reach it as `NAME=VALUE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Join each name with its value."""
        joined: list[str] = []
        rest = iter(args)
        for word in rest:
            joined.append(word)
            if word in ("-p", "--parameter"):
                name, value = next(rest, None), next(rest, None)
                if name is None or value is None:
                    ctx.fail(f"{word} takes a name and a value, e.g. {word} seed 1.")
                joined.append(f"{name}={value}")
        return super().parse_args(ctx, joined)


app = typer.Typer(
    cls=_Commands,
    help="Multi-output Gaussian processes: the companion of five documents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Chapters = Annotated[
    list[str] | None, typer.Argument(metavar="CHAPTER…", help="Document and number, e.g. ma/2.")
]
Profile = Annotated[str, typer.Option(help="smoke, quick, long or paper.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Chapters at a time (default: the cores, at most 4).")
]
Force = Annotated[bool, typer.Option("--force", help="Run unchanged chapters too.")]
Cluster = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler for the chapters' sweeps.")
]


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    """Multi-output Gaussian processes: the companion of five documents."""
    if version:
        from mogp.book.provenance import versions

        typer.echo(f"mogp {versions().get('mogp', 'not installed')}")
        raise typer.Exit


@app.command()
def chapters() -> None:
    """List the chapters, and when each was last run."""
    from rich.table import Table

    from mogp import project
    from mogp.book import results, sources

    table = Table("chapter", "title", "finished", "last run", "profile", "seconds")
    for chapter in sources.chapters():
        note = results.run_note(project.build_folder(), chapter.key)
        ran = (
            (note["date"][:16].replace("T", " "), note["profile"], f"{note['seconds']:.0f}")
            if note
            else ("never", "", "")
        )
        table.add_row(
            chapter.key, chapter.title, "yes" if chapter.finished else "in progress", *ran
        )
    _console().print(table)


@app.command(cls=_WithParameters)
def run(
    chapter: Chapters = None,
    everything: Annotated[bool, typer.Option("--all", help="Every chapter.")] = False,
    profile: Profile = "quick",
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-p",
            metavar="NAME VALUE",
            help="Set a parameter of the notebook; repeatable.",
        ),
    ] = None,
    jobs: Jobs = None,
    force: Force = False,
    record: Annotated[
        bool, typer.Option("--record", help="Keep the numbers in data/results/.")
    ] = False,
    cluster: Cluster = None,
) -> None:
    """Run chapters; those with nothing new in code, parameters, package or data are skipped."""
    from mogp.book.errors import CompanionError
    from mogp.book.sources import chapters as all_chapters

    if everything == bool(chapter):
        raise CompanionError(
            "name the chapters to run (`mogp chapters` lists them), or say --all, not both."
        )
    keys = [source.key for source in all_chapters()] if everything else chapter or []
    values = {
        name: _value(text) for name, _, text in (given.partition("=") for given in parameter or ())
    }
    if not _run(
        keys,
        profile=profile,
        parameters=values,
        jobs=jobs,
        force=force,
        record=record,
        cluster=cluster,
    ):
        raise typer.Exit(1)


@app.command()
def book(
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Build the site from the runs at hand.")
    ] = False,
    profile: Profile = "quick",
    jobs: Jobs = None,
    force: Force = False,
    cluster: Cluster = None,
) -> None:
    """Run every chapter, make a card for every data set, then build the site."""
    from mogp import project
    from mogp.book.report import changed_verdicts
    from mogp.book.sources import chapters as all_chapters

    keys = [source.key for source in all_chapters()]
    fine = no_run or _run(keys, profile=profile, jobs=jobs, force=force, cluster=cluster)
    build = project.build_folder()
    for change in changed_verdicts(build, profile):
        typer.secho(f"changed verdict: {change}", fg="yellow")
    from mogp.book import cards
    from mogp.book.site import SiteError, build_site

    for name in cards.refresh(build):
        typer.echo(f"data card: {name}")
    try:
        typer.echo(f"The book is at {build_site(build)}")
    except SiteError as problem:
        typer.secho(f"mogp: {problem}", fg="red", err=True)
        raise typer.Exit(1) from None
    if not fine:
        raise typer.Exit(1)


@app.command()
def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8000,
) -> None:
    """Serve the built site on this machine, until Ctrl-C."""
    from mogp import project
    from mogp.book.site import serve as serve_site

    serve_site(project.build_folder(), port)


@app.command()
def pdf() -> None:
    """Make one PDF of the book from the runs at hand; needs Chromium."""
    from mogp import project
    from mogp.book.site import SiteError, build_pdf

    try:
        typer.echo(f"The PDF is at {build_pdf(project.build_folder())}")
    except SiteError as problem:
        typer.secho(f"mogp: {problem}", fg="red", err=True)
        raise typer.Exit(1) from None


@app.command()
def report(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """Say for every figure and table whether it was regenerated, and for every claim whether it
    holds.
    """
    from mogp import project
    from mogp.book.report import report as make_report

    found = make_report(project.build_folder())
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2, ensure_ascii=False))
    else:
        from mogp.book.console import show_report

        show_report(_console(), found)


@app.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "help_option_names": [],
    },
)
def data(ctx: typer.Context) -> None:
    """List, fetch, verify and find data sets."""
    from mogp.datasets.cli import data_app

    data_app(ctx.args or ["--help"], prog_name="mogp data")


@app.command()
def teach(
    chapter: Annotated[str, typer.Argument(help="Document and number, e.g. ma/2.")],
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
) -> None:
    """Write a chapter's notebooks for students, for the instructor, and with the solutions."""
    from mogp.book.teach import teach as write

    for path in write(chapter, out):
        typer.echo(path)


@app.command()
def notebooks(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write to.")],
) -> None:
    """Write every chapter as a plain notebook, which Jupyter and papermill run."""
    from mogp.book.teach import notebooks as write

    for path in write(out):
        typer.echo(path)


def _run(keys: list[str], **options: Any) -> bool:
    """Run chapters before the user's eyes; whether all went well."""
    from mogp import project
    from mogp.book import runner
    from mogp.book.console import Progressing, show_failure
    from mogp.book.report import missing_artefacts

    console = _console()
    with Progressing(console) as progress:
        outcomes = runner.run(keys, watcher=progress, **options)
    owed = missing_artefacts(project.build_folder())
    for outcome in outcomes:
        if outcome.state != "failed" and outcome.chapter in owed:
            listed = ", ".join(owed[outcome.chapter])
            console.print(
                f"{outcome.chapter} is finished, but does not make {listed}", style="yellow"
            )
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in failed:
        show_failure(console, outcome)
    if failed:
        kept = "Earlier results of failed chapters are kept."
        console.print(
            f"{len(failed)} of {len(outcomes)} failed: {', '.join(o.chapter for o in failed)}."
            f" {kept}"
        )
    return not failed


def _value(text: str) -> Any:
    """A parameter as typed at the command line: a number, true, false, none, a list, or else the
    text itself.
    """
    import ast

    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _console() -> Console:
    from rich.console import Console

    return Console()


if __name__ == "__main__":
    app()
