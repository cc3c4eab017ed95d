"""Cells of CSV files that people open in spreadsheets."""

from __future__ import annotations

import re
from typing import Any, Final

# What a spreadsheet takes for the beginning of a formula, in the letters of East Asian text too.
_FORMULA: Final = re.compile(r"[\t\r\n ]*[=@＝＠]|[\t\r\n]")
# A sign begins a number or a plain text such as "- event pool"; with these a formula can call something.
_SIGNED: Final = re.compile(r" *[-+－＋]")
_CALLS: Final = re.compile(r"[(|!=@（｜！＝＠]")


def csv_cell(value: Any) -> Any:
    """A value as it stands in a CSV file: empty for None, and no text that a spreadsheet would run as a formula.

    Such a text gets an apostrophe before it, which spreadsheets show as part of it and run nothing. Numbers, and texts
    that only begin with a sign, stay as they are.
    """
    if value is None:
        return ""
    if isinstance(value, str) and (_FORMULA.match(value) or (_SIGNED.match(value) and _CALLS.search(value))):
        return f"'{value}"
    return value
