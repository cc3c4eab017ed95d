"""Opens pages of a report in headless Chromium and prints what happened as JSON. Run by the recording environment's
Python, which has Playwright: ``python hostile_browser.py PAGE …``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import playwright.sync_api
from report_browser import CHROMIUM


def visit(context: Any, address: str) -> dict[str, Any]:
    """Open one page, open everything on it, and say what it asked for, did and shows."""
    seen: dict[str, Any] = {"requests": [], "messages": [], "dialogs": [], "windows": 0}
    page = context.new_page()
    page.on("request", lambda request: seen["requests"].append(request.url))
    page.on("console", lambda message: seen["messages"].append(message.text))
    page.on("pageerror", lambda error: seen["messages"].append(str(error)))
    page.on("dialog", lambda dialog: (seen["dialogs"].append(dialog.message), dialog.dismiss()))
    page.on("popup", lambda _: seen.update(windows=seen["windows"] + 1))
    page.goto(address)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    # Whatever waits for a pointer, a focus or an error gets it.
    page.evaluate(
        "document.querySelectorAll('body *').forEach(one => { for (const name of ['mouseover', 'focus', 'error', 'toggle'])"
        " { one.dispatchEvent(new Event(name)); } })"
    )
    page.wait_for_load_state("networkidle")
    seen["address"] = page.url.split("#")[0]
    seen["marker"] = page.evaluate("typeof window.HOSTILE")
    seen["title"] = page.title()
    seen["text"] = page.inner_text("body")
    seen["links"] = page.evaluate("[...document.querySelectorAll('[href], [src]')].map(one => one.href || one.src)")
    page.close()
    return seen


def main() -> None:
    with playwright.sync_api.sync_playwright() as driver:
        flags = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        context = browser.new_context()
        print(json.dumps({name: visit(context, Path(name).as_uri()) for name in sys.argv[1:]}))
        browser.close()


if __name__ == "__main__":
    main()
