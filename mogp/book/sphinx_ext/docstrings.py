r"""Docstrings in Markdown, as people read them in the source, for autodoc.

They have Markdown backticks, `$\TeX$` and aligned columns of choices. autodoc expects
reStructuredText. `to_rst` translates block by block, where a block is what stands between blank
lines:

- `name` becomes a literal, `$x$` and `$$x$$` mathematics, a fenced block a code block;
- a table of Markdown becomes a table;
- lines of the form "word   text" (two spaces or more) become a list of definitions;
- Google and NumPy sections ("Args:", "Parameters" over dashes) are left to napoleon;
- any other block with ragged indentation is shown as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sphinx.application import Sphinx

__all__ = ["connect", "to_rst"]

_SECTION = re.compile(
    r"^\s*(Args|Arguments|Attributes|Example|Examples|Note|Notes|Raises|Returns|Shapes?|Yields):\s*$"
)
_DIRECTIVE = re.compile(r"^\s*(\.\. |:\w[\w ]*:|>>> )")
_UNDERLINE = re.compile(r"^\s*[-=]{3,}\s*$")
_BULLET = re.compile(r"^\s*([-*+]|\d+[.)])\s+\S")
_COLUMNS = re.compile(r"^(\S.*?)\s{2,}(\S.*)$")
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_WORD = re.compile(r"\w")
_INLINE = re.compile(
    # a role, a literal, a link: already reStructuredText
    r"(?P<keep>:[\w:]+:`[^`]+`|``[^`]+``|`[^`]+`__?(?!\w))"
    r"|(?P<bold>\*\*[^*\n]+\*\*)"
    r"|`(?P<code>[^`\n]+(?:\n[^`\n]+)?)`"
    r"|(?<![\\$\w])\$(?P<math>[^$\s](?:[^$`]*[^$\s])?)\$(?![$\d])"
    # would open an emphasis, a substitution, a hyperlink
    r"|(?P<plain>[*|]|_(?!\w))"
)


def connect(app: Sphinx) -> None:
    """Translate every docstring before napoleon (priority 500) sees it."""
    app.connect("autodoc-process-docstring", _process, priority=400)


def _process(
    _app: Sphinx, _what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    lines[:] = to_rst(lines)


def to_rst(lines: list[str]) -> list[str]:
    """The docstring `lines` in reStructuredText, every block followed by an empty line."""
    translated: list[str] = []
    in_section = in_literal = False
    for block in _blocks(lines):
        indented = block[0].startswith(" ")
        in_section = _opens_section(block) or (in_section and indented)
        in_literal = in_literal and indented
        translated += (
            block if in_literal else _inline(block) if in_section or indented else _translate(block)
        )
        translated.append("")
        in_literal = in_literal or block[-1].endswith("::")
    return translated


def _opens_section(block: list[str]) -> bool:
    return any(map(_SECTION.match, block)) or any(map(_UNDERLINE.match, block))


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Runs of lines between empty ones; a fenced block and a display equation stay whole."""
    block: list[str] = []
    fence = ""
    for line in lines:
        mark = line.strip()[:3] if line.strip().startswith("```") else "$$" * (line.count("$$") % 2)
        if not line.strip() and not fence:
            if block:
                yield block
            block = []
            continue
        if mark and mark == fence:
            fence = ""
        elif mark and not fence:
            fence = mark
        block.append(line)
    if block:
        yield block


def _translate(block: list[str]) -> list[str]:
    text = "\n".join(block)
    if block[0].lstrip().startswith("```"):
        return [".. code-block:: python", "", *_shift(block[1:-1])]
    if display := _DISPLAY.search(text):
        before, after = (
            text[: display.start()].splitlines(),
            text[display.end() :].strip(" \n").splitlines(),
        )
        equation = ["", ".. math::", "", *_shift(display[1].strip().splitlines()), ""]
        return [*_inline(before), *equation, *(_translate(after) if after else [])]
    if all(line.startswith("|") for line in block):
        return _table(block)
    if _DIRECTIVE.match(block[0]):
        return block
    if any(map(_BULLET.match, block)):
        return _bullets(block)
    if (
        len(block) > 1
        and all(_COLUMNS.match(line) or line.startswith("  ") for line in block)
        and _COLUMNS.match(block[0])
    ):
        return _definitions(block)
    if len({len(line) - len(line.lstrip()) for line in block}) > 1:
        return ["::", "", *_shift(block)]
    return _inline(block)


def _table(block: list[str]) -> list[str]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block]
    out = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows[:1] + rows[2:]:
        for number, cell in enumerate(row):
            out.append(("   * - " if number == 0 else "     - ") + "".join(_inline([cell])))
    return out


def _bullets(block: list[str]) -> list[str]:
    """A list, with an empty line before it and aligned lines, as reStructuredText asks for."""
    out: list[str] = []
    hang = ""
    for line in block:
        if _BULLET.match(line):
            if not hang:
                out.append("")
            hang = " " * (len(line) - len(line.lstrip()) + len(line.split(maxsplit=1)[0]) + 1)
            out.append(re.sub(r"^(\s*)[*+]", r"\1-", line))
        else:
            out.append(hang + line.lstrip() if hang else line)
    return _inline(out)


def _definitions(block: list[str]) -> list[str]:
    out: list[str] = []
    for line in block:
        if not line.startswith("  ") and (columns := _COLUMNS.match(line)):
            out += ["", *_inline([columns[1]]), *_shift(_inline([columns[2]]))]
        else:
            out += _shift(_inline([line.strip()]))
    return out


def _inline(block: list[str]) -> list[str]:
    text = "\n".join(block)

    def replace(found: re.Match[str]) -> str:
        if found["math"]:
            marked = ":math:`" + found["math"].replace("\n", " ") + "`"
        elif found["code"]:
            marked = f"``{found['code']}``"
        else:
            return "\\" + found[0] if found["plain"] else found[0]
        before, after = text[: found.start()][-1:], text[found.end() :][:1]
        return "\\ " * bool(_WORD.match(before)) + marked + "\\ " * bool(_WORD.match(after))

    return _INLINE.sub(replace, text).splitlines()


def _shift(block: list[str]) -> list[str]:
    return ["   " + line for line in block]
