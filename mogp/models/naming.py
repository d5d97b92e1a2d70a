"""Names in errors and on paper."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str]) -> str:
    """The first ten names, quoted.

    Args:
        names: any number.
    """
    return ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")
