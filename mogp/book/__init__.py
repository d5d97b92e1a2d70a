"""The companion: chapters that record what they make, a runner, a ledger, teaching material.

Inside a chapter only this is needed::

    from mogp.book import Chapter

    chapter = Chapter("ma/2", profile=profile, seed=seed)
    settings = chapter.settings(smoke={...}, quick={...}, long={...}, paper={...})
    with chapter.figure("ma-fig-2-1") as ax:
        ...
    chapter.claim("ma-2-c1", holds=True, measured="max |mean - y| = 0.02")
    chapter.finish()
"""

from mogp.book.chapter import Chapter
from mogp.book.errors import CompanionError
from mogp.book.records import RunRecord, recorded
from mogp.book.sources import ChapterSource, chapters

__all__ = ["Chapter", "ChapterSource", "CompanionError", "RunRecord", "chapters", "recorded"]
