"""Errors with names, for callers who want to tell them apart."""

from __future__ import annotations


class UnsupportedError(ValueError):
    """A model cannot do what was asked of it; the message says what to use instead.

    >>> raise UnsupportedError("HGP has no mini-batches. Use hgp_ind.")
    Traceback (most recent call last):
    ...
    mogp.errors.UnsupportedError: HGP has no mini-batches. Use hgp_ind.
    """
