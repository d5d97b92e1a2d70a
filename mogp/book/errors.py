"""The one exception for mistakes that the reader of the message can correct."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CompanionError(ValueError):
    """A mistake in a chapter, a ledger or a command; the message says what to do about it."""


def unknown(what: str, given: str, known: Iterable[str], advice: str = "") -> CompanionError:
    """The error for a name that does not exist, with the nearest names that do."""
    names = sorted(known)
    close = difflib.get_close_matches(given, names, n=3, cutoff=0.6)
    listed = ", ".join(close or names[:12]) or "none"
    lead = "did you mean" if close else "there are"
    return CompanionError(f"unknown {what} {given!r}; {lead}: {listed}. {advice}".strip())
