"""Scenarios desk-12 and desk-14 to desk-18: scrapping, lending, leavers and the supply counter."""

from minibench.recorder import Recorder
from minibench.scenario import Scenario

ASSET = "SELECT a.state, u.username FROM desk_asset a LEFT JOIN auth_user u ON u.id = a.custodian_id WHERE a.tag = ?"
NOBODY = "---------"


def _scrap(r: Recorder) -> None:
    r.click("button", "^Scrapping$", "Read the drill before I touch the ledger.")
    r.click("link", "^Asset Ledger$", "The wipe is done, so the next step is the ledger.")
    r.click("link", "^Assets$", "Open the assets.")
    r.click("link", "^HF-20711$", "The list is sorted by tag and HF-20711 is on the first page. Open it.")
    r.select("State", "Scrapped", "Set the state.")
    r.click("button", "^Put on record$", "Save the record.")
    r.fill(
        "textbox", "Wipe certificate", "WC-0418", "It refuses to scrap without the certificate: WC- and four digits."
    )
    r.click("button", "^Put on record$", "Save again.")
    r.click("link", "^HF-20711$", "The banner says that Ewa is no longer the custodian. Check that in the record.")


def _lend(r: Recorder) -> None:
    r.click("button", "^Loans$", "The handbook has a page on loans.")
    r.click("link", "^Asset Ledger$", "Loan pool laptops have tags from HF-70001. Slips are kept in the ledger.")
    r.click("link", "^Add$", "Add a loan slip.", nth=1)
    r.select("Loan pool device", "HF-70002 Fjord 14", "Take one of the pool.")
    r.select("Borrower", "isla.grant", "Isla Grant borrows it.")
    r.fill("textbox", "Due back", "2026-03-31", "Until the end of March.")
    r.fill("textbox", "Purpose", "Cover for the stowage planner", "The purpose from the goal.")
    r.click("button", "^Put on record$", "Save the slip.")
    r.select(
        "Loan pool device",
        "HF-70004 Fjord 14",
        "Two errors: HF-70002 is not racked, and a loan runs for 21 days at most. HF-70004 should be free.",
    )
    r.fill("textbox", "Due back", "2026-03-23", "The last possible day is 23 March. I take that.")
    r.click("button", "^Put on record$", "Save again.")
    r.send(
        "Isla has HF-70004 on loan. She can extend it to 31 March later.",
        "The slip exists. The date is shorter than asked, but an extension should be possible.",
    )


def _switch_off(r: Recorder) -> None:
    r.click("link", "^bjorn.aas$", "Open his record.")
    r.click("checkbox", "Active", "Untick Active, that switches the account off.")
    r.click("button", "^Put on record$", "Save.")
    r.goto("/ledger/desk/asset/", "He still holds 1 asset. Find it in the asset ledger.")
    r.click("link", "^HF-20501$", "HF-20501 carries his name. Open it.")
    r.select("Custodian", NOBODY, "Take his name off.")
    r.click("button", "^Put on record$", "Save the asset.")
    r.select("State", "Racked", "An asset in service needs a custodian. Nobody has it, so it is racked.")
    r.click("button", "^Put on record$", "Save again.")
    r.goto("/ledger/auth/user/5/change/", "The asset is free. Back to his record by its address.")
    r.click("checkbox", "Active", "Untick Active again.")
    r.click("button", "^Put on record$", "Save. The banner should confirm that the account is off.")


def _switched_off(username: str) -> str:
    return f"SELECT is_active FROM auth_user WHERE username = '{username}'"


def _leaver_drill(r: Recorder) -> None:
    r.click("button", "Leaver drill", "Read the steps.")
    r.goto("/ledger/desk/asset/", "Step one: rack every asset that Jonas holds.")
    r.click("link", "^HF-20655$", "HF-20655 is his laptop.")
    r.select("State", "Racked", "Rack it.")
    r.select("Custodian", NOBODY, "And take his name off, or the ledger would put it back in service.")
    r.click("button", "^Put on record$", "Save.")
    r.goto("/ledger/auth/user/4/change/", "No complaint, so that worked. Now his account.")
    r.click("checkbox", "Active", "Untick Active.")
    r.click("button", "^Put on record$", "Save.")
    r.send(
        "Jonas's laptop is racked. His account cannot be switched off while he handles open cases.",
        "He still handles open cases. I skipped step two of the drill, and I do not know who should take his cases.",
    )


def _order_office_laptop(r: Recorder) -> None:
    r.click("button", "Cost centres", "The handbook has a page on cost centres.")
    r.click("link", "^Supply Counter$", "Aarhus Hub is CC-4520-DK. Laptops are ordered at the Supply Counter.")
    r.click("link", "Configure Fjord 14", "Open the Fjord 14.")
    r.click("radio", "32 GB", "32 GB as asked.")
    r.click("radio", "Quay dock", "And the Quay dock. The total follows.")
    r.fill("textbox", "Receiver", "Freja Lind", "She receives it.")
    r.select("Deliver to berth", "Aarhus Hub", "At Aarhus Hub.")
    r.fill("textbox", "Cost centre", "CC-4520-DK", "The cost centre from the handbook.")
    r.fill(
        "textbox",
        "Budget approver",
        "Solveig Lund",
        "The total of 15040 NOK is above the limit that the counter named, so I enter the desk lead as approver.",
    )
    r.click("button", "Place order", "Place it.")


def _order(r: Recorder) -> tuple[str, str] | None:
    rows = r.query("SELECT item, options FROM desk_supplyorder ORDER BY id DESC LIMIT 1")
    return (rows[0][0], rows[0][1]) if rows else None


def _order_planner_laptop(r: Recorder) -> None:
    r.click("link", "Configure Fjord 16", "Crane planners get the Fjord 16.")
    r.click("radio", "64 GB", "64 GB as asked.")
    r.click("radio", "Planner card", "It is built to order, 14 working days. Now the planner card.")
    r.fill("textbox", "Receiver", "Nora Vik", "She receives it.")
    r.fill("textbox", "Cost centre", "CC-4410-NO", "Bergen Quay's cost centre.")
    r.click("button", "Place order", "Everything is filled, place the order.")
    r.fill(
        "textbox",
        "Budget approver",
        "Solveig Lund",
        "Above 15000 NOK a budget approver is needed. Solveig is the lead.",
    )
    r.click("button", "Place order", "Only the approver was missing, so place the order again.")
    r.send("The Fjord 16 with 64 GB and planner card is ordered for Nora Vik as SC-1047.", "The order went through.")


ADMIN_SCENARIOS = [
    Scenario(
        "desk-12",
        "desk",
        "Ewa's old laptop HF-20711 is to be scrapped; Nordwipe issued certificate WC-0418. Do what our rules ask for.",
        "/kb/equipment-handbook/",
        "tuva",
        _scrap,
        lambda r: r.query(ASSET, ("HF-20711",)) == [("Scrapped", None)],
    ),
    Scenario(
        "desk-14",
        "desk",
        "Isla Grant at Leith Depot needs a laptop until 31 March 2026 while she covers for the stowage planner. "
        "Arrange it.",
        "/kb/equipment-handbook/",
        "tuva",
        _lend,
        lambda r: (
            r.query("SELECT 1 FROM desk_loanslip WHERE due_back = '2026-03-31'") != []
            or (_order(r) or ("", ""))[0].startswith("Fjord")
        ),
    ),
    Scenario(
        "desk-15",
        "desk",
        "Bjorn Aas left on Friday. Switch off his account.",
        "/ledger/auth/user/",
        "tuva",
        _switch_off,
        lambda r: r.query(_switched_off("bjorn.aas")) == [(0,)],
    ),
    Scenario(
        "desk-16",
        "desk",
        "Today is Jonas Vik's last day. Go through the leaver drill for him until his account is off.",
        "/kb/joiners-and-leavers/",
        "tuva",
        _leaver_drill,
        lambda r: r.query(_switched_off("jonas")) == [(0,)],
    ),
    Scenario(
        "desk-17",
        "desk",
        "Order a Fjord 14 with 32 GB and the Quay dock for Freja Lind at Aarhus Hub, on the right cost centre.",
        "/kb/equipment-handbook/",
        "tuva",
        _order_office_laptop,
        lambda r: (_order(r) or ("", ""))[1].startswith("32 GB, Quay dock"),
    ),
    Scenario(
        "desk-18",
        "desk",
        "Nora Vik starts as a crane planner in Bergen. Order a Fjord 16 with 64 GB and the planner card for her.",
        "/supply/",
        "tuva",
        _order_planner_laptop,
        lambda r: (_order(r) or ("", ""))[1].startswith("64 GB, Planner card"),
    ),
]
