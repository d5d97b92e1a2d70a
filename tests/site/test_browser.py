"""The site in Chromium with every other host blocked: equations, search, dark mode, a narrow screen, the report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mogp.book import site as site_module

pytestmark = pytest.mark.browser
LEFT = "net::ERR_ABORTED"  # the test went on to the next page before this one had loaded everything
CHAPTER = "chapters/ma/2-gaussian-processes.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
    try:
        path = site_module.chromium()
    except FileNotFoundError as problem:
        pytest.skip(str(problem))
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(site_module._CHROMIUM_FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with site_module._served(site) as address:
        yield address


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page that fails the test when anything on it fails to load, and that refuses other hosts."""
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900}, color_scheme="light")
    page = context.new_page()
    problems: list[str] = []
    page.on("request", lambda r: None if r.url.startswith((address, "data:")) else problems.append(f"asked {r.url}"))
    page.on("requestfailed", lambda r: None if r.failure == LEFT else problems.append(f"{r.failure} {r.url}"))
    page.on("response", lambda r: problems.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    context.close()
    assert problems == []


def typeset(page: Any) -> None:
    page.evaluate("() => MathJax.startup.promise.then(() => true)")


def test_equations_are_typeset(page: Any) -> None:
    page.goto(CHAPTER)
    typeset(page)
    boxes = [equation.bounding_box() for equation in page.locator("mjx-container").all()]
    assert len(boxes) >= 2
    assert all(box["width"] > 10 and box["height"] > 8 for box in boxes)
    assert page.locator("mjx-merror").count() == 0
    assert page.evaluate("() => document.fonts.ready.then(() => document.fonts.check('16px MJXTEX'))")


def test_search_finds_a_word_that_stands_on_one_page(page: Any) -> None:
    page.goto("search.html?q=quokka")
    result = page.locator("#search-results li a").first
    result.wait_for()
    assert CHAPTER in result.get_attribute("href")
    assert page.locator("#search-results li").count() == 1


def test_dark_mode_darkens_the_page_and_keeps_figures_on_white(page: Any) -> None:
    def brightness() -> float:
        colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3])

    page.goto(CHAPTER)
    light = brightness()
    button = page.locator(".theme-switch-button").locator("visible=true").first
    for _ in range(3):
        if page.evaluate("() => document.documentElement.dataset.theme") == "dark":
            break
        button.click()
    assert brightness() < 150 < 600 < light
    figure = page.locator("#ma-fig-2-2 img")
    assert figure.evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"
    assert figure.evaluate("e => getComputedStyle(e).filter") == "none"


@pytest.mark.parametrize("claim", ["ma-2-c1", "ma-2-c2"])
def test_verdicts_can_be_read_in_the_dark(page: Any, claim: str) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(CHAPTER)
    colours = page.locator(f"#{claim}").evaluate(
        "e => [getComputedStyle(e).backgroundColor, getComputedStyle(e.querySelector('p')).color]"
    )
    assert contrast(*colours) > 4.5


def test_no_page_scrolls_sideways_on_a_telephone(page: Any, site: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    wide = []
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if name == "index.html":
            continue
        page.goto(name)
        if page.locator(".math").count():
            typeset(page)
        width = page.evaluate("() => document.documentElement.scrollWidth")
        if width > 390:
            wide.append((name, width))
    assert wide == []


@pytest.mark.parametrize(("screen", "least"), [(390, 280), (1280, 400)])
def test_the_texts_of_a_verdict_have_room_beside_long_headings(page: Any, screen: int, least: int) -> None:
    page.set_viewport_size({"width": screen, "height": 844})
    page.goto(CHAPTER)
    heading = "Recorded: long profile, 2026-11-16, 492 s on Linux x86_64, 2 cores, TensorFlow 2.21.0"
    widths = page.locator("#ma-2-c1 dl").evaluate(
        "(e, heading) => { e.insertAdjacentHTML('beforeend', `<dt>${heading}</dt><dd>${'a word '.repeat(60)}</dd>`);"
        " return [...e.querySelectorAll('dd')].map(d => d.getBoundingClientRect().width); }",
        heading,
    )
    assert min(widths) > least


def test_the_report_sorts_and_filters(page: Any) -> None:
    page.goto("chapters/guide/report.html")
    table = page.locator("#claims-table")
    rows = table.locator("tbody tr")
    total = rows.count()

    def ids() -> list[str]:
        return [text.strip() for text in table.locator("tbody tr:not([hidden]) td:first-child").all_inner_texts()]

    table.locator("th button", has_text="id").click()
    first = ids()
    table.locator("th button", has_text="id").click()
    assert ids() == first[::-1]
    assert len(set(first)) == total

    table.locator("select").select_option("does not hold")
    assert ids() == ["ma-2-c2"]
    table.locator("select").select_option("")
    table.locator("input").fill("gumbel softmax")
    assert 0 < len(ids()) < total
    assert table.locator("output").inner_text() == f"{len(ids())} of {total} claims"
    table.locator("input").fill("no such word anywhere")
    assert ids() == []


def test_a_link_of_the_report_leads_to_the_figure(page: Any) -> None:
    page.goto("chapters/guide/report.html")
    page.locator("#artefacts-table a", has_text="ma-fig-2-2").click()
    page.wait_for_url("**#ma-fig-2-2")
    box = page.locator("#ma-fig-2-2").bounding_box()
    assert 0 <= box["y"] < 900


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two CSS colours after WCAG 2: (brighter + 0.05) / (darker + 0.05)."""

    def luminance(colour: str) -> float:
        parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, brighter = sorted((luminance(one), luminance(other)))
    return (brighter + 0.05) / (darker + 0.05)
