"""Scenarios desk-01 to desk-08: logging cases and moving them between stages."""

from minibench.apps.desk.cases import CASES, FIRST_CASE
from minibench.recorder import Recorder
from minibench.scenario import Scenario

NEWEST_CASE = (
    "SELECT q.slug, t.priority FROM helpdesk_ticket t JOIN helpdesk_queue q ON q.id = t.queue_id "
    "ORDER BY t.id DESC LIMIT 1"
)
PARTICULAR = (
    "SELECT v.value FROM helpdesk_ticketcustomfieldvalue v JOIN helpdesk_customfield f ON f.id = v.field_id "
    "WHERE f.name = ? AND v.ticket_id = (SELECT MAX(id) FROM helpdesk_ticket)"
)
LAST_SEEDED_CASE = FIRST_CASE + len(CASES) - 1


def _new_case(r: Recorder) -> bool:
    return bool(r.query("SELECT MAX(id) FROM helpdesk_ticket")[0][0] > LAST_SEEDED_CASE)


def _stage(r: Recorder, case: int) -> tuple[int, str | None]:
    """A case's stage number and its handler's user name."""
    rows = r.query(
        "SELECT t.status, u.username FROM helpdesk_ticket t LEFT JOIN auth_user u ON u.id = t.assigned_to_id "
        "WHERE t.id = ?",
        (case,),
    )
    return rows[0][0], rows[0][1]


def _open_work_tab(r: Recorder, thought: str) -> None:
    r.click("tab", "Work the case", thought)


def _log_scanner(r: Recorder) -> None:
    r.fill(
        "textbox",
        "Search",
        "Kaiscan",
        "The label that Callum read out starts with HAL, and those labels are void. The yard scanners are made by "
        "Kaiscan, so I look the new tag up by the make.",
    )
    r.click("button", "Search", "Run the search.")
    r.goto(
        "/tickets/submit/",
        "Three scanners. The one at Leith Depot with custodian callum.reid is HF-30118. Now log the case.",
    )
    r.select("Lane", "Dockside Incidents", "A dead scanner at a gate is an incident at the dockside.")
    r.fill("textbox", "^Headline", "Gate 5 scanner does not switch on", "A short headline, one device.")
    r.fill(
        "textbox",
        "What happened",
        "The yard scanner at gate 5 stays dark, also in the cradle.",
        "The form wants what the caller saw.",
    )
    r.select("Urgency", "P2 - Site degraded", "The goal asks for P2.")
    r.select("Berth", "Leith Depot", "Callum works at Leith Depot.")
    r.fill("textbox", "Asset tag", "HF-30118", "The tag from the ledger.")
    r.click("button", "Log it", "All fields that matter are filled, so I submit the form.")


def _scanner_logged(r: Recorder) -> bool:
    tag = r.query(PARTICULAR, ("asset_tag",))
    return _new_case(r) and r.query(NEWEST_CASE) == [("DOCK", 2)] and tag == [("HF-30118",)]


def _log_equipment(r: Recorder) -> None:
    r.select("Lane", "Equipment Requests", "A headset is equipment.")
    r.fill("textbox", "^Headline", "Bridge headset for Kari Moe", "Name the thing and the person.")
    r.fill("textbox", "What happened", "Kari Moe joins the bridge calls and needs a headset.", "Say why it is needed.")
    r.click("button", "Log it", "The other fields say optional, so this should be enough.")
    r.fill(
        "textbox",
        "Cost centre",
        "4410",
        "The field says optional, but in this lane it is not. I remember 4410 for Bergen.",
    )
    r.click("button", "Log it", "Try again with the cost centre.")
    r.send(
        "I could not log the request: the form keeps rejecting the cost centre. Please ask Kari for the full number.",
        "It wants CC-, four digits and the country. I only have the digits and do not want to guess, so I stop here.",
    )


def _log_change(r: Recorder) -> None:
    r.select("Lane", "Change Calendar", "A switch swap is a change, so it goes into the Change Calendar lane.")
    r.fill("textbox", "^Headline", "Replace core switch at Aarhus Hub", "Headline as given.")
    r.fill(
        "textbox",
        "What happened",
        "The core switch in rack 2 is replaced by the spare of the same type.",
        "The label says What happened, but for a change I describe the work.",
    )
    r.fill("textbox", "Promised for", "2026-03-08", "It has to be finished by 8 March.")
    r.select("Change window", "Thu 22:00-23:30", "Thursday evening is the first window before Sunday.")
    r.click("button", "Log it", "Submit the change.")
    r.fill(
        "textbox",
        "What happened",
        "The core switch in rack 2 is replaced by the spare of the same type.\nRollback: mount the old switch again.",
        "Two complaints: the Thursday window is frozen until 20 March, and the text lacks a line that starts with "
        "Rollback:. First the text.",
    )
    r.select("Change window", "Sun 05:00-09:00", "Sunday morning is 8 March, which still meets the date.")
    r.click("button", "Log it", "Both points are corrected, so submit again.")


def _change_logged(r: Recorder) -> bool:
    window = r.query(PARTICULAR, ("change_window",))
    return _new_case(r) and r.query(NEWEST_CASE)[0][0] == "CHANGE" and window == [("Sun 05:00-09:00",)]


def _log_gate(r: Recorder) -> None:
    r.select("Lane", "Dockside Incidents", "A barrier at the terminal is a dockside incident.")
    r.fill("textbox", "^Headline", "Exit barrier at Gdynia frozen", "Headline.")
    r.fill("textbox", "What happened", "The barrier does not rise, trucks queue up to hall B.", "What the caller saw.")
    r.select("Urgency", "P1 - Freight stopped", "Freight has stopped, so P1.")
    r.select("Berth", "Gdynia Terminal", "The berth is mandatory for this lane as far as I know.")
    r.click("button", "Log it", "Submit.")
    r.select(
        "Urgency",
        "P2 - Site degraded",
        "P1 is kept for Ring 0, says the form. It offers to lower the urgency to P2, which is the quickest way out.",
    )
    r.click("button", "Log it", "Submit with P2.")
    r.send(
        "The barrier case is logged with the highest urgency the form allowed, P2.",
        "The case exists. I saw no alarm banner, but the case is logged.",
    )


def _deliver_fix(r: Recorder) -> None:
    _open_work_tab(r, "Stages are changed on the tab Work the case, not in the Levers menu.")
    r.fill("textbox", "Worklog entry", "Done.", "A short note for the journal.")
    r.click("radio", "Fix delivered", "The goal is the stage Fix delivered.")
    r.click("button", "Put on record", "Save it.")
    _open_work_tab(
        r,
        "Refused: at least 20 characters and the minutes booked are needed. My entry is gone, so I start over.",
    )
    r.fill("textbox", "Worklog entry", "Power supply of the dock replaced, no flicker for an hour.", "A fuller entry.")
    r.fill("InputTime", "", "00:25", "25 minutes, as the goal says.")
    r.click("radio", "Fix delivered", "The stage was reset as well, choose it again.")
    r.click("button", "Put on record", "Save again.")


def _wait_for_vendor(r: Recorder) -> None:
    r.click("link", "2103. Crane planner screen", "The case is on my worklist.")
    _open_work_tab(r, "Open the tab where stages are changed.")
    r.fill(
        "textbox", "Worklog entry", "Fjord Computers takes over, reference FC-5531.", "Put the reference in the text."
    )
    r.click("radio", "Awaiting vendor", "This is the stage for a case that lies with a vendor.")
    r.click("button", "Put on record", "Save.")
    _open_work_tab(
        r, "It wants a Vendor reference under Case particulars; the text alone does not count. Back to the tab."
    )
    r.click("radio", "Awaiting vendor", "Choose the stage again, it fell back to Back in work.")
    r.click("button", "Case particulars", "Unfold the particulars below the entry.")
    r.fill("textbox", "Vendor reference", "FC-5531", "Here is the field.")
    r.click("button", "Put on record", "Save with the reference.")
    r.send(
        "Case 2103 waits for Fjord Computers under FC-5531 and stays on your worklist.",
        "The stage reads Awaiting vendor and the clock runs for three working days. That is what was asked for.",
    )


def _reopen_radio(r: Recorder) -> None:
    r.click("button", "Levers", "Perhaps the text can be corrected from the Levers menu.")
    r.click("link", "Correct details", "Try Correct details.")
    _open_work_tab(r, "Details of a sealed case cannot be corrected. Then I write to the journal.")
    r.fill("textbox", "Worklog entry", "Callum hears the hiss on channel 5 again since Sunday.", "The new information.")
    r.click("button", "Put on record", "Save it.")
    _open_work_tab(
        r,
        "The journal is locked while the case is sealed. The message says to move it to Back in work together with "
        "the entry.",
    )
    r.fill("textbox", "Worklog entry", "Callum hears the hiss on channel 5 again since Sunday.", "Type it again.")
    r.click("radio", "Back in work", "Move the stage in the same step.")
    r.click("button", "Put on record", "Save both.")


def _radio_reopened(r: Recorder) -> bool:
    entries = r.query("SELECT COUNT(*) FROM helpdesk_followup WHERE ticket_id = 2119 AND comment LIKE '%hiss%again%'")
    return _stage(r, 2119)[0] == 2 and entries[0][0] == 1


def _mark_twin(r: Recorder) -> None:
    r.click(
        "link", "2116. Gate 3 scanner", "2116 and 2101 describe the same scanner. 2101 is older, so 2116 is the copy."
    )
    _open_work_tab(r, "Open the tab with the stages.")
    r.fill("textbox", "Worklog entry", "Same scanner as in Callum's case.", "Say why it is a copy.")
    r.click("radio", "Twin", "There is no stage called Duplicate. Twin must be it.")
    r.click("button", "Put on record", "Save.")
    _open_work_tab(r, "I have to name the original as # and its number.")
    r.fill("textbox", "Worklog entry", "Twin of #2101, same scanner at gate 3.", "Now with the number.")
    r.click("radio", "Twin", "Choose the stage again.")
    r.click("button", "Put on record", "Save.")


CASE_SCENARIOS = [
    Scenario(
        "desk-01",
        "desk",
        "Callum Reid from Leith Depot calls: the yard scanner at gate 5, old label HAL-0118, does not switch on. "
        "Log it as a dockside incident with urgency P2 and the scanner's valid asset tag.",
        "/ledger/desk/asset/",
        "tuva",
        _log_scanner,
        _scanner_logged,
    ),
    Scenario(
        "desk-02",
        "desk",
        "Log an equipment request for a bridge headset for Kari Moe in Bergen, charged to her berth's cost centre.",
        "/tickets/submit/",
        "tuva",
        _log_equipment,
        _new_case,
    ),
    Scenario(
        "desk-03",
        "desk",
        "Log the replacement of the core switch at Aarhus Hub as a change. It must be finished by 8 March 2026.",
        "/tickets/submit/",
        "tuva",
        _log_change,
        _change_logged,
    ),
    Scenario(
        "desk-04",
        "desk",
        "The exit barrier at Gdynia Terminal is frozen and no truck can leave. Log it so that the P1 alarm goes out.",
        "/tickets/submit/",
        "tuva",
        _log_gate,
        lambda r: _new_case(r) and r.query(NEWEST_CASE)[0][1] == 1,
    ),
    Scenario(
        "desk-05",
        "desk",
        "The flickering planner screen (case 2103) is cured: I replaced the dock's power supply in 25 minutes. "
        "Move the case to Fix delivered.",
        "/tickets/2103/",
        "tuva",
        _deliver_fix,
        lambda r: _stage(r, 2103)[0] == 3,
    ),
    Scenario(
        "desk-06",
        "desk",
        "Fjord Computers takes over the flickering planner screen under reference FC-5531. Let the case wait for the "
        "vendor, but keep it on my worklist.",
        "/dashboard/",
        "tuva",
        _wait_for_vendor,
        lambda r: _stage(r, 2103) == (6, "tuva"),
    ),
    Scenario(
        "desk-07",
        "desk",
        "Callum says that channel 5 hisses again. Add this to the old case 2119 and bring the case back into work.",
        "/tickets/2119/",
        "tuva",
        _reopen_radio,
        _radio_reopened,
    ),
    Scenario(
        "desk-08",
        "desk",
        "Two people reported the dead scanner at gate 3. Keep the older case and mark the younger one as a duplicate.",
        "/dashboard/",
        "tuva",
        _mark_twin,
        lambda r: _stage(r, 2116)[0] == 5 and _stage(r, 2101)[0] == 1,
    ),
]
