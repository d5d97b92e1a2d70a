"""The book on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from mogp.book.site import build_pdf, chromium


@pytest.mark.browser
def test_the_book_prints_to_a_pdf(small_book: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
    try:
        chromium()
    except FileNotFoundError as problem:
        pytest.skip(str(problem))
    pdf = build_pdf(small_book / "_build")
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert pdf.stat().st_size > 10_000
    assert list(pdf.parent.glob("*.part")) == []


def test_a_browser_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOGP_CHROMIUM", str(tmp_path / "chrome"))
    with pytest.raises(FileNotFoundError, match=r"MOGP_CHROMIUM=.*chrome"):
        chromium()
