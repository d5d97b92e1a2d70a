"""What a chapter makes is shown with its provenance, kept whole, and only under ids of the ledger that are its own."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from mogp.book import Chapter, CompanionError

mpl.use("agg")


@dataclasses.dataclass(frozen=True)
class Numbers:
    name: str
    source: str
    digest: str = hashlib.sha256(b"numbers").hexdigest()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list:
    outputs: list = []
    monkeypatch.setattr("IPython.display.display", outputs.append)
    return outputs


@pytest.fixture
def ma3(book: Path, shown: list) -> Chapter:
    return Chapter("ma/3", profile="smoke", seed=3)


def html(output: object) -> str:
    return output._repr_mimebundle_()["text/html"]


def test_importing_the_companion_and_the_command_imports_neither_tensorflow_nor_pandas():
    code = "import sys, mogp.book, mogp.cli; print({'tensorflow', 'gpflow', 'pandas'} & set(sys.modules))"
    root = Path(__file__).resolve().parents[2]
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=root).strip() == "set()"


def test_figure_is_kept_as_svg_and_png_and_shown_with_its_provenance(ma3: Chapter, shown: list):
    with ma3.figure("ma-fig-3-1", ncols=2, data=Numbers("ma-two-class", "synthetic"), alt="two lines") as axes:
        axes[0].plot([0, 1])
        axes[1].plot([1, 0])
    assert axes.shape == (2,)
    folder = ma3.folder / "artefacts"
    assert (folder / "ma-fig-3-1.svg").read_text().startswith("<?xml")
    assert min(Image.open(folder / "ma-fig-3-1.png").info["dpi"]) >= 150
    note = json.loads((folder / "ma-fig-3-1.json").read_text())
    assert (note["id"], note["chapter"], note["profile"], note["seed"]) == ("ma-fig-3-1", "ma/3", "smoke", 3)
    assert note["data"] == [{"name": "ma-two-class", "source": "synthetic", "sha256": Numbers.digest}]
    assert (note["standin"], note["partial"]) == (False, "")
    assert {"python", "tensorflow", "gpflow", "mogp"} <= note["versions"].keys()
    page = html(shown[0])
    assert 'id="ma-fig-3-1"' in page
    assert 'alt="two lines"' in page
    assert 'class="mogp-provenance"' in page
    assert 'href="#cell-ma-fig-3-1"' in page
    line = repr(shown[0]).splitlines()[-1]
    assert line.startswith("ma-fig-3-1 · Figure 3.1 of ma · smoke profile · data: ma-two-class (synthetic) · ")


def test_one_by_one_figure_gives_its_axes(ma3: Chapter):
    with ma3.figure("ma-fig-3-1") as ax:
        assert isinstance(ax, mpl.axes.Axes)


def test_the_same_drawing_is_the_same_bytes(book: Path, shown: list):
    def draw() -> list[bytes]:
        chapter = Chapter("ma/3")
        with chapter.figure("ma-fig-3-1") as ax:
            ax.plot([0, 1, 0], label="a")
            ax.legend()
        return [(chapter.folder / "artefacts" / f"ma-fig-3-1.{kind}").read_bytes() for kind in ("svg", "png")]

    assert draw() == draw()


def test_a_stand_in_is_said_on_the_face_of_the_figure_and_in_its_provenance(ma3: Chapter, shown: list):
    with ma3.figure("ma-fig-3-6", data=[Numbers("ujiindoorloc", "stand-in")]) as ax:
        figure = ax.figure
    assert [text.get_text() for text in figure.texts] == ["Drawn from a synthetic stand-in for ujiindoorloc."]
    assert json.loads((ma3.folder / "artefacts" / "ma-fig-3-6.json").read_text())["standin"] is True
    assert "data: a synthetic stand-in for ujiindoorloc" in html(shown[0])


def test_real_data_in_place_of_others_are_named_on_the_figure_and_in_the_verdict(ma3: Chapter, shown: list):
    toy = ma3.load("zip-toy", instead_of="city", N=20)
    assert (toy.source, toy.instead_of) == ("synthetic", "")  # only real data stand in for others
    motor = dataclasses.replace(toy, name="motor", source="stand-in", instead_of="city")
    with ma3.figure("ma-fig-3-6", data=[motor]) as ax:
        figure = ax.figure
    assert [text.get_text() for text in figure.texts] == ["Drawn from motor in place of city."]
    ma3.claim("ma-3-c1", holds=True, measured="1", data=motor)
    assert "holds on other data" in html(shown[1])


def test_a_figure_that_fails_leaves_no_file_and_no_open_figure(ma3: Chapter):
    from matplotlib import pyplot as plt

    before = plt.get_fignums()
    with pytest.raises(ZeroDivisionError), ma3.figure("ma-fig-3-1"):
        1 / 0  # noqa: B018
    assert list((ma3.folder / "artefacts").iterdir()) == []
    assert plt.get_fignums() == before


def test_table_round_trips_through_its_csv(ma3: Chapter, shown: list):
    frame = pd.DataFrame({"model": ["G-M", "MG-M"], "recall": [0.123456789012345, np.nan]})
    ma3.table("ma-table-3-2", frame, data=Numbers("ma-two-class", "real"), partial="two of five folds")
    back = pd.read_csv(ma3.folder / "artefacts" / "ma-table-3-2.csv")
    pd.testing.assert_frame_equal(back, frame, check_exact=True)
    assert "partly regenerated: two of five folds" in html(shown[0])
    assert "0.1235" in html(shown[0])


def test_table_keeps_a_named_index_and_may_be_empty(ma3: Chapter):
    ma3.table("ma-table-3-1", pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="row")))
    assert (ma3.folder / "artefacts" / "ma-table-3-1.csv").read_text() == "row,a\nx,1\n"
    ma3.table("ma-alg-1", pd.DataFrame({"step": []}))
    assert (ma3.folder / "artefacts" / "ma-alg-1.csv").read_text() == "step\n"


def test_recorded_tables_of_larger_runs_are_folded_below_a_table_that_differs(ma3: Chapter, shown: list, monkeypatch):
    from mogp.book import records

    path = ma3.folder / "recorded.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a\n7\n", encoding="utf-8")
    long = records.RunRecord("ma/3", "long", {}, 9.0, "2026-01-02", "Linux", {}, (), {}, {"ma-table-3-1": path})
    monkeypatch.setattr(records, "recorded", lambda key: {"long": long})
    ma3.table("ma-table-3-1", pd.DataFrame({"a": [1]}))
    assert "<summary>Recorded: long profile, 2026-01-02, 9 s on Linux</summary>" in html(shown[-1])
    assert "<td>7</td>" in html(shown[-1])

    path.write_text("a\n1\n", encoding="utf-8")
    Chapter("ma/3", profile="quick").table("ma-table-3-1", pd.DataFrame({"a": [1]}))
    assert "<details>" not in html(shown[-1])


def test_table_of_something_else_is_refused(ma3: Chapter):
    with pytest.raises(CompanionError, match="got list, expected a pandas DataFrame"):
        ma3.table("ma-table-3-1", [[1]])


def test_ids_outside_the_ledger_and_of_other_chapters_are_refused(ma3: Chapter):
    with (
        pytest.raises(CompanionError, match=r"unknown artefact 'ma-fig-3-99'; did you mean: ma-fig"),
        ma3.figure("ma-fig-3-99"),
    ):
        pass
    with pytest.raises(CompanionError, match="panos-fig-1-1 belongs to chapter panos/1"), ma3.figure("panos-fig-1-1"):
        pass
    with pytest.raises(CompanionError, match="panos-1-c1 is about panos; chapter ma/3 cannot decide it"):
        ma3.claim("panos-1-c1", holds=True, measured="")


def test_appendix_belongs_to_the_chapter_it_supports(book: Path, shown: list):
    with Chapter("giraldo/2").figure("giraldo-fig-b-1"):
        pass


def test_a_figure_is_no_table_and_a_table_no_figure(ma3: Chapter):
    with (
        pytest.raises(CompanionError, match=r"ma-table-3-1 is a table in the ledger; use chapter\.table"),
        ma3.figure("ma-table-3-1"),
    ):
        pass
    with pytest.raises(CompanionError, match=r"use chapter\.figure"):
        ma3.table("ma-fig-3-1", pd.DataFrame())


def test_an_id_is_produced_and_decided_once_a_run(ma3: Chapter):
    for again in (False, True):
        with (
            pytest.raises(CompanionError, match="already produced") if again else contextlib.nullcontext(),
            ma3.figure("ma-fig-3-1"),
        ):
            pass
        with pytest.raises(CompanionError, match="already decided") if again else contextlib.nullcontext():
            ma3.claim("ma-3-c1", holds=True, measured="")


def test_an_artefact_of_real_data_must_say_which_data_it_used(ma3: Chapter):
    with (
        pytest.raises(CompanionError, match=r"ma-fig-3-6 shows ujiindoorloc in the ledger; pass data="),
        ma3.figure("ma-fig-3-6"),
    ):
        pass


@pytest.mark.parametrize("holds", [1, "yes", None, np.array([True])])
def test_a_verdict_must_be_a_bool(ma3: Chapter, holds: object):
    with pytest.raises(CompanionError, match="expected a bool"):
        ma3.claim("ma-3-c1", holds=holds, measured="")


def test_claim_shows_what_was_published_measured_and_checked(ma3: Chapter, shown: list):
    ma3.claim("ma-3-c4", holds=np.bool_(False), measured="bias <0.3>", note="only at s = C - 1")
    page = html(shown[0])
    assert 'class="mogp-claim mogp-fails" id="ma-3-c4"' in page
    for part in ("does not hold", "eq. 3.28", "bias &lt;0.3&gt;", "enumerate all subsets", "only at s = C - 1"):
        assert part in page
    kept = json.loads((ma3.folder / "claims" / "ma-3-c4.json").read_text())
    assert (kept["holds"], kept["measured"]) == (False, "bias <0.3>")


def test_claim_rests_on_the_data_of_the_artefacts_it_speaks_of(book: Path, shown: list):
    chapter = Chapter("ma/2")
    with chapter.figure("ma-fig-2-1", data=Numbers("toy-gp-1d", "synthetic")):
        pass
    chapter.claim("ma-2-c1", holds=True, measured="")
    chapter.claim("ma-2-c2", holds=True, measured="")
    kept = [json.loads((chapter.folder / "claims" / f"ma-2-c{i}.json").read_text()) for i in (1, 2)]
    assert [[use["name"] for use in claim["data"]] for claim in kept] == [["toy-gp-1d"], []]


def test_settings_are_those_of_the_profile(ma3: Chapter):
    assert ma3.settings(smoke={"n": 1}, quick={"n": 2}, long={"n": 3}, paper={"n": 4}).n == 1
    with pytest.raises(CompanionError, match="profiles paper and quick differ in the settings m"):
        ma3.settings(smoke={"n": 1}, quick={"n": 2}, long={"n": 3}, paper={"n": 4, "m": 5})


def test_unknown_profile_is_refused(book: Path):
    with pytest.raises(CompanionError, match=r"profile 'fast'.*smoke, quick, long, paper"):
        Chapter("ma/3", profile="fast")


def test_loaded_data_are_remembered_with_their_options(ma3: Chapter):
    dataset = ma3.load("toy-gp-1d", n=4)
    (kept,) = json.loads((ma3.folder / "chapter.json").read_text())["data"]
    assert kept == {"name": "toy-gp-1d", "source": "synthetic", "sha256": dataset.digest, "options": {"n": "4"}}


def test_finish_lists_what_was_and_was_not_produced(ma3: Chapter, shown: list):
    with ma3.figure("ma-fig-3-1"):
        pass
    ma3.finish()
    text = repr(shown[-1])
    assert "ma-fig-3-1: produced" in text
    assert "ma-fig-3-2: not produced" in text
    assert 'href="#ma-fig-3-2"' not in html(shown[-1])


def test_a_second_interactive_run_starts_afresh(book: Path, shown: list):
    with Chapter("ma/3").figure("ma-fig-3-1"):
        pass
    assert list((Chapter("ma/3").folder / "artefacts").iterdir()) == []


def test_without_a_book_results_go_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MOGP_BUILD", raising=False)
    monkeypatch.delenv("MOGP_CHAPTER_OUT", raising=False)
    monkeypatch.setenv("MOGP_BOOK", str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path)
    assert Chapter("ma/3").folder == tmp_path / "mogp-output" / "ma-3"


def test_png_of_a_large_figure_replaces_its_svg_on_the_page(ma3: Chapter, shown: list):
    with ma3.figure("ma-fig-3-1") as ax:
        ax.scatter(*np.random.default_rng(0).normal(size=(2, 20_000)), s=1)
    assert '<img src="data:image/png;base64,' in html(shown[0])
    bundle = shown[0]._repr_mimebundle_()
    assert Image.open(io.BytesIO(base64.b64decode(bundle["image/png"]))).width > 500


def test_the_note_on_a_stand_in_stands_clear_of_a_legend_below_the_figure():
    import matplotlib.pyplot as plt

    from mogp.book.figures import render, say_below
    from mogp.plotting import use_style

    use_style()
    figure, ax = plt.subplots(figsize=(6, 3))
    ax.plot([1, 2], label="a line")
    legend = figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center")
    say_below(figure, "Drawn from a stand-in.")
    before = legend.get_window_extent().transformed(figure.transFigure.inverted())
    render(figure, "png")
    after = legend.get_window_extent().transformed(figure.transFigure.inverted())
    note = figure.texts[-1].get_window_extent().transformed(figure.transFigure.inverted())
    assert after.y0 == pytest.approx(before.y0, abs=0.01)
    assert note.y1 <= after.y0
    plt.close(figure)
