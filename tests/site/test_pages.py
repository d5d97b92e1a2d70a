"""The built pages, read with an HTML parser."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup

ASSETS = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, BeautifulSoup]:
    """Every page by its address within the site."""
    found = {path.relative_to(site).as_posix(): path for path in sorted(site.rglob("*.html"))}
    return {name: BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser") for name, path in found.items()}


def ledger(name: str, book: Path) -> list[dict[str, str]]:
    with (book / "data" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_page_has_a_title_of_its_own(pages: dict[str, BeautifulSoup]) -> None:
    titles = [soup.title.get_text().strip() for name, soup in pages.items() if name != "index.html" and soup.title]
    assert len(titles) == len(pages) - 1
    assert all(titles)
    assert len(set(titles)) == len(titles)


def test_every_data_set_has_a_card_that_the_data_page_links(pages: dict[str, BeautifulSoup]) -> None:
    from mogp.datasets import names

    linked = {link["href"] for link in pages["chapters/guide/data.html"].find("article").find_all("a", href=True)}
    for name in names():
        assert f"data/{name}.html" in linked
        assert pages[f"chapters/guide/data/{name}.html"].find("h1").get_text().startswith(name)


def test_no_page_loads_anything_from_another_host(pages: dict[str, BeautifulSoup]) -> None:
    foreign = [
        (name, element[attribute])
        for name, soup in pages.items()
        for tag, attribute in ASSETS.items()
        for element in soup.find_all(tag)
        if urlsplit(element.get(attribute) or "").netloc
    ]
    inline = [
        (name, script.string[:80])
        for name, soup in pages.items()
        for script in soup.find_all("script")
        if script.string and re.search(r"https?://", script.string)
    ]
    assert foreign == []
    assert inline == []


def test_no_style_sheet_loads_anything_from_another_host(site: Path) -> None:
    foreign = {
        path.name: found
        for path in site.rglob("*.css")
        if (found := re.findall(r"(?:@import|url\()\s*[\"']?(https?:)?//[^)\s]+", path.read_text(encoding="utf-8")))
    }
    assert foreign == {}


def test_every_link_within_the_site_leads_to_a_page_and_an_anchor(site: Path, pages: dict[str, BeautifulSoup]) -> None:
    anchors = {name: {element["id"] for element in soup.find_all(id=True)} for name, soup in pages.items()}
    broken = []
    for name, soup in pages.items():
        for href in {element["href"] for element in soup.find_all("a", href=True)} - {"#"}:
            link = urlsplit(href)
            if link.scheme or link.netloc:
                continue
            target, anchor = unquote(urljoin(name, link.path)) if link.path else name, unquote(link.fragment)
            if not (site / target).is_file() or (anchor and anchor not in anchors.get(target, {anchor})):
                broken.append((name, href))
    assert broken == []


def test_every_image_has_words_for_those_who_do_not_see_it(pages: dict[str, BeautifulSoup]) -> None:
    assert [name for name, soup in pages.items() for image in soup.find_all("img") if not image.get("alt")] == []


def test_a_chapter_offers_its_notebook_without_outputs(site: Path, pages: dict[str, BeautifulSoup]) -> None:
    page = "chapters/ma/2-gaussian-processes.html"
    link = pages[page].find("a", class_="reference download internal")
    notebook = json.loads((site / urljoin(page, link["href"])).read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") for cell in notebook["cells"])
    assert ["parameters"] in [cell["metadata"].get("tags") for cell in notebook["cells"]]


def test_a_chapter_that_ran_shows_its_results(pages: dict[str, BeautifulSoup]) -> None:
    soup = pages["chapters/ma/2-gaussian-processes.html"]
    assert soup.find(id="ma-fig-2-2").find("img")["src"].startswith("data:image/")
    assert soup.find(id="ma-2-c2", class_="mogp-fails")
    assert "smoke profile" in soup.find(class_="mogp-chapter-facts").get_text()
    assert soup.find("div", class_="note") is None


def test_a_chapter_that_has_not_run_says_so_and_shows_its_code(pages: dict[str, BeautifulSoup]) -> None:
    soup = pages["chapters/panos/2-sparse-posteriors.html"]
    assert "has not been run" in soup.find("div", class_="note").get_text()
    assert "1 + 1" in soup.get_text()


def test_solutions_are_folded_away(pages: dict[str, BeautifulSoup]) -> None:
    folded = pages["chapters/ma/2-gaussian-processes.html"].find("article").find("details")
    assert "draws = 3" in folded.get_text()
    assert folded.find("summary").get_text().strip().startswith("Solution")


@pytest.mark.parametrize(("table", "file"), [("artefacts-table", "artefacts.csv"), ("claims-table", "claims.csv")])
def test_the_report_lists_every_row_of_the_ledger(
    table: str, file: str, pages: dict[str, BeautifulSoup], book: Path
) -> None:
    rows = pages["chapters/guide/report.html"].find(id=table).find("tbody").find_all("tr")
    assert [row.find("code").get_text() for row in rows] == [row["id"] for row in ledger(file, book)]


def test_the_report_links_what_was_produced_and_nothing_else(pages: dict[str, BeautifulSoup]) -> None:
    soup = pages["chapters/guide/report.html"]
    linked = {
        link["href"] for link in soup.find_all("a") if link.find("code") and link.find_parent(class_="mogp-report")
    }
    page = "../ma/2-gaussian-processes.html"
    assert linked == {f"{page}#ma-fig-2-2", f"{page}#ma-2-c1", f"{page}#ma-2-c2"}


def test_the_report_tells_when_chapters_ran(pages: dict[str, BeautifulSoup]) -> None:
    text = pages["chapters/guide/report.html"].find(id="when-the-chapters-ran").get_text(" ")
    assert re.search(r"ma/2\s+smoke\s+[\d.]+ s\s+\d{4}-\d\d-\d\d", text)
    assert re.search(r"panos/2\s+not run", text)


def test_errata_hold_every_doubtful_or_contradicted_claim(pages: dict[str, BeautifulSoup], book: Path) -> None:
    doubted = [row["id"] for row in ledger("claims.csv", book) if row["spec_verdict"] in ("doubtful", "contradicted")]
    shown = [entry["id"] for entry in pages["chapters/guide/errata.html"].find_all(class_="mogp-erratum")]
    assert sorted(shown) == sorted(f"erratum-{identifier}" for identifier in doubted)


def test_the_model_map_covers_every_model_of_the_ledger(pages: dict[str, BeautifulSoup], book: Path) -> None:
    text = pages["chapters/guide/models.html"].find("article").get_text(" ")
    named = {name for row in ledger("artefacts.csv", book) for name in row["models"].split(";") if name}
    variants_of_mlgpf = re.compile(r"^(ARD|SE|SE-p|LINEAR)([-/](LINEAR|S|B|FX|UN|PP|AG|l))*$")
    missing = {name for name in named if name not in text and not variants_of_mlgpf.match(name)}
    assert missing <= {"sampler", "GP-prior", "bi-GPLAR", "additive-GPLAR"}


def test_every_public_name_has_its_place_in_the_reference(pages: dict[str, BeautifulSoup]) -> None:
    import mogp
    from mogp import likelihoods, models, priors

    anchors = {e["id"] for name, soup in pages.items() if "/api/" in name for e in soup.find_all("dt", id=True)}
    documented = {anchor.rpartition(".")[2] for anchor in anchors}
    public = {*mogp.__all__, *likelihoods.__all__, *models.__all__, *priors.__all__} - {"__version__"}
    assert public - documented == set()
