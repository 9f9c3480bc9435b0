"""The page in a real browser: Debian's Chromium, driven by playwright."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longtail.serve.feedback import FeedbackLog
from tests.serve.conftest import Server

playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright_api.expect
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt-get install chromium)")

PATIENCE = 90_000  # milliseconds to wait for a condition: tests run beside others, on busy machines
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    expect.set_options(timeout=PATIENCE)
    with playwright_api.sync_playwright() as playwright:
        try:
            running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE)
        except playwright_api.Error as error:
            pytest.skip(f"chromium does not start here: {str(error).splitlines()[0]}")
        yield running
        running.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    """The page, opened; the test fails where it reports an error or reaches for another host."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    context.set_default_timeout(PATIENCE)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda sent: None if sent.url.startswith(server.url) else problems.append(sent.url))
    opened.goto(server.url)
    expect(opened.locator("#model option")).to_have_count(2)
    yield opened
    context.close()
    assert not problems


def _type(page: Any, text: str) -> None:
    page.locator("#text").fill("")
    page.locator("#text").press_sequentially(text, delay=5)
    expect(page.locator("#columns")).to_have_attribute("aria-busy", "false")  # the answer to all of the text is shown
    expect(page.locator(".label").first).to_be_visible()


def test_labels_appear_while_typing_and_words_are_marked(page: Any) -> None:
    _type(page, "a red fig")
    fig = page.locator("li").filter(has_text="all about fig")
    expect(fig.locator(".badge")).to_have_text("tail")
    expect(fig.locator(".probability")).to_contain_text("%")
    fig.locator(".label").click()
    expect(page.locator("#backdrop mark.for").filter(has_text="fig")).to_have_count(1)
    expect(fig.locator(".why")).to_contain_text("fig +")
    expect(fig.locator(".label")).to_have_attribute("aria-expanded", "true")
    page.locator("#text").press("End")
    page.locator("#text").press_sequentially("s")
    expect(page.locator("#backdrop mark")).to_have_count(0)


def test_small_effects_are_not_rounded_to_zero(page: Any) -> None:
    _type(page, "a red fig")
    word = {"word": "fig", "effect": 0.000041, "spans": [[6, 9]]}
    label = {
        "label": "all about fig",
        "id": None,
        "count": 1,
        "group": "tail",
        "probability": 0.999998,
        "neighbours": [],
    }
    answer = {"model": "tree", "version": "0", "labels": [label | {"words": [word, word | {"effect": -0.0012}]}]}
    page.route("**/explain", lambda route: route.fulfill(json=answer))
    page.locator(".label").first.click()
    expect(page.locator(".why mark")).to_have_text(["fig +0.004", "fig −0.1"])


def test_two_models_side_by_side(page: Any) -> None:
    _type(page, "a red fig")
    page.select_option("#second", "net")
    expect(page.locator(".column")).to_have_count(2)
    expect(page.locator(".column h3")).to_have_text(["tree", "net"])
    expect(page.locator(".both").first).to_be_visible()


def test_thumbs_become_feedback(page: Any, server: Server) -> None:
    _type(page, "a red fig for the page")
    page.get_by_role("button", name="all about fig is right").click()
    expect(page.locator("#status")).to_contain_text("Stored: all about fig is right.")
    page.get_by_role("button", name="all about red is wrong").click()
    expect(page.locator("#status")).to_contain_text("all about red is wrong.")
    stored = list(FeedbackLog(server.log.parent / "feedback" / "tree.feedback.sqlite").after())[-2:]
    text = "a red fig for the page"
    assert [entry.correction for entry in stored] == [
        {"text": text, "right": ["all about fig"]},
        {"text": text, "wrong": ["all about red"]},
    ]
    assert {entry.source for entry in stored} == {"page"}


def test_a_second_click_on_a_thumb_takes_it_back(page: Any, server: Server) -> None:
    log = FeedbackLog(server.log.parent / "feedback" / "tree.feedback.sqlite")
    n = len(log)
    _type(page, "a red fig, judged twice")
    right, wrong = (page.get_by_role("button", name=f"all about fig is {verdict}") for verdict in ("right", "wrong"))
    right.click()
    expect(right).to_have_attribute("aria-pressed", "true")
    wrong.click()
    expect(wrong).to_have_attribute("aria-pressed", "true")
    expect(right).to_have_attribute("aria-pressed", "false")
    assert [entry.correction.get("wrong") for entry in log.after()][n:] == [["all about fig"]]
    wrong.click()
    expect(page.locator("#status")).to_have_text("Taken back: all about fig is wrong.")
    expect(wrong).to_have_attribute("aria-pressed", "false")
    assert len(log) == n


def test_html_in_a_text_or_a_label_stays_text(page: Any, tmp_path: Path) -> None:
    attack = '<img src=x onerror="document.title=1"> fig <script>document.title=2</script>'
    _type(page, attack)
    page.locator(".label").first.click()
    expect(page.locator("#backdrop mark").first).to_be_visible()
    assert page.locator("#backdrop img, #backdrop script, .columns img, .columns script").count() == 0
    hostile = {"label": attack, "id": attack, "count": 1, "group": "tail", "probability": 0.5}
    answer = {"model": attack, "version": "0", "results": [[hostile]]}
    page.route("**/suggest", lambda route: route.fulfill(json=answer))
    page.locator("#k").fill("3")
    page.locator("#k").press("Tab")
    expect(page.locator(".label .name").first).to_have_text(attack)
    word = {"word": attack, "effect": 0.5, "spans": [[0, 4]]}
    near = {"similarity": 0.9, "labels": [attack, attack + "2"]}
    explained = {"labels": [hostile | {"words": [word], "neighbours": [near]}], "words_tried": 1, "words_left_out": 0}
    page.route("**/explain", lambda route: route.fulfill(json=explained))
    page.locator(".label").first.click()
    expect(page.locator(".why li")).to_have_text(f"A training text 90 % similar has this label and {attack}2")
    assert page.locator("main img, main script").count() == 0
    assert page.title() == "longtail: labels for a text"


def test_files_and_copies(page: Any, tmp_path: Path) -> None:
    table = tmp_path / "texts.csv"
    table.write_text('id,text\n1,"a red ""fig"", ripe"\n2,a green pear\n')
    page.set_input_files("#file", table)
    expect(page.locator("#text")).to_have_value('a red "fig", ripe')
    expect(page.locator("#row-name")).to_have_text("Row 1 of 2")
    page.locator("#next").click()
    expect(page.locator("#text")).to_have_value("a green pear")
    expect(page.locator(".label .name").first).to_have_text(re.compile("all about (pear|green)"))  # both are right
    best = page.locator(".label .name").first.inner_text().strip()
    page.locator("#copy-csv").click()
    expect(page.locator("#status")).to_have_text("Copied as CSV.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"model,label,id,probability\ntree,{best},http://example.org/{best.split()[-1]},")
    page.locator("#copy-json").click()
    expect(page.locator("#status")).to_have_text("Copied as JSON.")
    page.locator("#label-all").click()
    expect(page.locator("#status")).to_have_text("Copied the labels of 2 rows as CSV.")
    table.write_text("id,Title,Abstract\n1,a red,fig\n2,,\n\n3,a green pear,\n")  # the second has no text
    page.set_input_files("#file", table)
    expect(page.locator("#text")).to_have_value("a red\nfig")
    expect(page.locator("#row-name")).to_have_text("Row 1 of 3")
    page.locator("#label-all").click()
    expect(page.locator("#status")).to_have_text("Copied the labels of 3 rows as CSV.")
    assert f"\n3,{best}," in page.evaluate("navigator.clipboard.readText()")
    table.write_text("id,text\n1,\n")
    page.set_input_files("#file", table)
    expect(page.locator("#problem")).to_have_text("texts.csv holds no text.")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    page.set_input_files("#file", tmp_path / "binary.txt")
    expect(page.locator("#problem")).to_have_text("binary.txt is not a text file in UTF-8.")


def test_a_narrow_screen_and_the_keyboard(page: Any) -> None:
    page.set_viewport_size({"width": 340, "height": 700})
    _type(page, "a red fig")
    assert page.evaluate("document.documentElement.scrollWidth") <= 340
    page.locator(".label").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".why mark").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 340
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "up"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(page: Any, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page.emulate_media(color_scheme=scheme)
    _type(page, "a red fig")
    page.select_option("#second", "net")
    expect(page.locator(".column")).to_have_count(2)
    page.locator(".label").first.click()
    page.locator(".why mark").first.wait_for()
    found = axe.Axe().run(page).response["violations"]
    assert not found, [(entry["id"], [node["target"] for node in entry["nodes"]]) for entry in found]
