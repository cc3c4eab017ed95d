"""Scenarios desk-09 to desk-11 and desk-13: finding cases and assets, and handing over several cases at once."""

import re

from minibench.recorder import Recorder
from minibench.scenario import Scenario


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\b\d+\b", text)]


def _row_checkbox(r: Recorder, headline: str) -> str:
    """Element id of the checkbox in the register's row of a case; the checkboxes themselves have no name."""
    before = r.tree[: r.tree.index(headline)]
    return re.findall(r"\[(\w+)\] checkbox", before)[-1]


def _count_tunnel_cases(r: Recorder) -> None:
    r.fill("textbox", "Search", "VPN", "The search field in the header takes a keyword, so I start with VPN.")
    r.click("button", "Go", "Run the search.")
    r.click(
        "link",
        "^Playbook$",
        "The list holds every open case: VPN was left out because words need at least four letters. "
        "Maybe the Playbook knows a better word.",
    )
    r.click("link", "Open chapter", "Dockside drills sounds right for call handling.", nth=1)
    r.click("button", "Tunnel problems", "A page on tunnel problems, that is about the VPN.")
    r.fill("textbox", "Search", "tunnel", "The page says that callers write the word tunnel in every such case.")
    r.click("button", "Go", "Search for tunnel.")
    r.send(
        "There are 3 cases about VPN trouble.", "The register shows three entries for tunnel, so the answer is three."
    )


def _tunnel_count_right(r: Recorder) -> bool:
    return r.query("SELECT COUNT(*) FROM helpdesk_ticket WHERE title LIKE '%VPN%'")[0][0] in _numbers(r.answer)


def _count_scanner_cases(r: Recorder) -> None:
    r.click("button", "Narrow down", "The filters are behind Narrow down.")
    r.click("button", "^Lane", "Unfold the lane filter.")
    r.click("checkbox", "Dockside Incidents", "Only this lane.")
    r.click("button", "^Words", "Unfold the words filter.")
    r.fill("textbox", "^Words", "scanner", "The keyword.")
    r.click("button", "Narrow the register", "Apply both filters.")
    r.send(
        "4 cases in Dockside Incidents mention a scanner.",
        "The register shows four entries. I filtered for the lane, so I take the number as it stands.",
    )


def _scanner_count_right(r: Recorder) -> bool:
    rows = r.query(
        "SELECT COUNT(*) FROM helpdesk_ticket t JOIN helpdesk_queue q ON q.id = t.queue_id WHERE q.slug = 'DOCK' "
        "AND t.status != 4 AND (t.title LIKE '%scanner%' OR t.description LIKE '%scanner%')"
    )
    return rows[0][0] in _numbers(r.answer)


def _hand_over(r: Recorder) -> None:
    r.click(
        "link",
        "Harbourmaster's morning",
        "Saved views are called lenses here. One may list the cases that nobody handles; try the Harbourmaster's.",
    )
    r.back("It shows urgent cases of all lanes with handlers. Not what I need.")
    r.click("link", "Drifting at the docks", "Drifting means without a handler; this one is limited to the docks.")
    r.do(f"click({_row_checkbox(r, '2128. Leith yard map')!r})", "Callum called in the yard map. Tick it.")
    r.do(f"click({_row_checkbox(r, '2101. Gate 3 scanner')!r})", "And the gate 3 scanner, also from Callum.")
    r.click("button", "^Levers$", "Bulk actions are in the Levers menu.")
    r.select("^$", "jonas", "Hand over to jonas.")
    r.click("button", "^\\S* ?Go", "Run the lever.", nth=1)
    r.send(
        "Cases 2128 and 2101 of Callum Reid are handed over to Jonas.", "The register is back, Jonas has both cases."
    )


def _handed_over(r: Recorder) -> bool:
    rows = r.query(
        "SELECT t.id FROM helpdesk_ticket t JOIN auth_user u ON u.id = t.assigned_to_id "
        "WHERE u.username = 'jonas' AND t.submitter_email LIKE 'callum%' ORDER BY t.id"
    )
    return rows == [(2101,), (2128,)]


def _list_devices(r: Recorder) -> None:
    r.fill("textbox", "Search", "nowak", "Search for her surname.")
    r.click("button", "Search", "Run it.")
    r.click("link", "total", "Nothing: the search covers the tag and the model, not the custodian. Show all again.")
    r.click("link", "In service", "Use the filter on the right: devices that somebody has are in service.")
    r.click("link", "CUSTODIAN", "Sort by custodian so that hers stand together.")
    r.send(
        "Ewa Nowak holds three devices: HF-20711, HF-30131 and HF-40233. Cover has ended for HF-20711 and HF-40233.",
        "Three rows carry ewa.nowak.",
    )


def _devices_right(r: Recorder) -> bool:
    tags = r.query(
        "SELECT a.tag FROM desk_asset a JOIN auth_user u ON u.id = a.custodian_id WHERE u.username = 'ewa.nowak'"
    )
    return all(tag in r.answer for (tag,) in tags)


REGISTER_SCENARIOS = [
    Scenario(
        "desk-09",
        "desk",
        "How many cases in the register are about VPN trouble, whatever their stage?",
        "/dashboard/",
        "tuva",
        _count_tunnel_cases,
        _tunnel_count_right,
    ),
    Scenario(
        "desk-10",
        "desk",
        "How many cases in the lane Dockside Incidents mention a scanner? Leave sealed cases aside.",
        "/tickets/",
        "tuva",
        _count_scanner_cases,
        _scanner_count_right,
    ),
    Scenario(
        "desk-11",
        "desk",
        "Hand all dockside cases that Callum Reid called in and that nobody handles over to Jonas, in one go.",
        "/saved-searches/",
        "tuva",
        _hand_over,
        _handed_over,
    ),
    Scenario(
        "desk-13",
        "desk",
        "Which devices does Ewa Nowak have, and for which of them has the cover ended?",
        "/ledger/desk/asset/",
        "tuva",
        _list_devices,
        _devices_right,
    ),
]
