"""Clicks through a report in headless Chromium and prints what it saw as JSON. Run by the recording environment's Python,
which has Playwright: ``python report_browser.py INDEX [FOLDER for screenshots]``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import playwright.sync_api

CHROMIUM = "/usr/bin/chromium"
WIDTHS = (1280, 390)
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


class Visit:
    """A browser window on the report; notes every request, message and error."""

    def __init__(self, context: Any, shots: Path | None):
        self.seen: dict[str, Any] = {"requests": [], "messages": [], "overflow": [], "dialogs": []}
        self.page = context.new_page()
        self._shots = shots
        self.page.on("request", lambda request: self.seen["requests"].append(request.url))
        self.page.on("console", lambda message: self.seen["messages"].append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.seen["messages"].append(f"error: {error}"))
        self.page.on("dialog", self._dialog)

    def _dialog(self, dialog: Any) -> None:
        self.seen["dialogs"].append(dialog.message)
        dialog.dismiss()

    def look(self, name: str) -> None:
        """Check every width for a page that scrolls sideways, and keep a screenshot."""
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": 900})
            if not self.page.evaluate(FITS):
                self.seen["overflow"].append(f"{name} at {width}")
            if self._shots is not None:
                self.page.screenshot(path=str(self._shots / f"{name}-{width}.png"), full_page=name != "question-open")
        self.page.set_viewport_size({"width": WIDTHS[0], "height": 900})

    def shown_rows(self, table: str) -> int:
        return len([row for row in self.page.query_selector_all(f"{table} tbody tr") if row.is_visible()])


def click_through(visit: Visit, index: Path) -> None:
    """Overview -> method -> question -> list and filters -> comparison -> examples."""
    page, seen = visit.page, visit.seen
    start = time.monotonic()
    page.goto(index.as_uri())
    seen["load_s"] = time.monotonic() - start
    seen["title"] = page.title()
    visit.look("overview")
    page.click("main table a >> nth=-1")
    seen["method"] = page.inner_text("h1")
    visit.look("method")
    page.click("table.questions a >> nth=0")
    seen["question"] = page.inner_text("h1")
    seen["cell"] = page.evaluate("document.querySelector(':target') !== null")
    visit.look("question")
    for summary in page.query_selector_all(".cell:target summary") or page.query_selector_all("summary"):
        summary.click()
    page.evaluate("(document.querySelector('.cell:target') || document.body).scrollIntoView()")
    page.wait_for_load_state("networkidle")
    visit.look("question-open")
    seen["broken"] = page.evaluate(
        "Promise.all([...document.images].map(one => { one.loading = 'eager'; return one.decode().then(() => 0, () => 1) }))"
        ".then(all => all.reduce((sum, one) => sum + one, 0))"
    )
    page.click("nav >> text=Questions")
    seen["listed"] = visit.shown_rows("#questions")
    page.select_option("[data-filter=cell]", index=1)
    page.select_option("[data-filter=outcome]", "wrong")
    seen["wrong"] = visit.shown_rows("#questions")
    seen["badges"] = sorted(
        {one.inner_text() for one in page.query_selector_all("td.chosen .badge") if one.is_visible()}
    )
    seen["count"] = page.inner_text("#count")
    visit.look("questions")
    first = page.query_selector("#questions tbody tr:not([hidden]) a")
    if first is not None:
        first.click()
        page.go_back()
        page.wait_for_selector("#count")
        seen["restored"] = page.inner_text("#count")
    page.focus("#reset")
    page.keyboard.press("Enter")
    seen["reset"] = visit.shown_rows("#questions")
    page.fill("[data-filter=words]", "no-such-word-anywhere")
    seen["none"] = visit.shown_rows("#questions")
    page.click("nav >> text=Compare")
    page.select_option("#a", index=0)
    page.select_option("#b", index=1)
    page.select_option("#which", "all")
    seen["pair"] = {name: page.inner_text(f"#n{name}") for name in ("11", "10", "01", "00")}
    seen["compared"] = len(page.query_selector_all("#compared tr"))
    visit.look("compare")
    page.click("nav >> text=Examples")
    seen["examples"] = len(page.query_selector_all("article.example"))
    visit.look("examples")


def main() -> None:
    index = Path(sys.argv[1]).resolve()
    shots = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with playwright.sync_api.sync_playwright() as driver:
        flags = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        visit = Visit(browser.new_context(), shots)
        click_through(visit, index)
        plain = browser.new_context(java_script_enabled=False).new_page()
        plain.goto((index.parent / "pages" / "questions.html").as_uri())
        visit.seen["without_script"] = plain.locator("#questions tbody tr:visible").count()
        browser.close()
    print(json.dumps(visit.seen))


if __name__ == "__main__":
    main()
