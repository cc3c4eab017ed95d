"""Policies of the shop's staff dashboard, the Backroom."""

from __future__ import annotations

from minibench.recorder import Recorder
from minibench.scenario import Scenario


def void_picked_entry(r: Recorder) -> None:
    """Voiding a picked order: over On hold, refused without a note, then done."""
    r.fill("textbox", "Ledger number", "100154", "The ledger can be searched by number. Look for 100154.")
    r.click("button", "^Search", "Run the search.")
    r.select(
        "Next station",
        "On hold",
        "The number matched one entry, which opened by itself. It stands at Picked, and the next stations are only "
        "Handed to carrier and On hold. Voiding it must go over On hold.",
    )
    r.click("button", "Move entry", "Move the entry to On hold.")
    r.select("Next station", "Voided", "The entry is on hold and Voided is offered now.")
    r.click("button", "Move entry", "Move it to Voided.")
    r.click(
        "link",
        "Keeper notes",
        "It was refused: a keeper note of the kind 'Void reason' has to be pinned first. Notes have their own tab.",
    )
    r.select("Note kind", "Void reason", "There are four kinds of notes. Choose the one that the message named.")
    r.fill("textbox", "Note text", "Patron cancelled by phone on Monday.", "Write the reason that the goal gives.")
    r.click("button", "Pin note", "Pin the note.")
    r.click("link", "Goods on order", "The note is pinned. The list of next stations is on the tab with the goods.")
    r.select("Next station", "Voided", "Choose Voided again.")
    r.click("button", "Move entry", "Move the entry once more.")


def correct_sealed_point(r: Recorder) -> None:
    """Hands over first and finds the delivery point sealed; half done."""
    r.click("button", "Dispatch desk", "Orders should be under 'Dispatch desk'.")
    r.click("link", "Order ledger", "The menu has an order ledger.")
    r.fill("textbox", "Ledger number", "100162", "Search for the entry by its number.")
    r.click("button", "^Search", "Run the search.")
    r.select(
        "Next station",
        "Handed to carrier",
        "The entry opened. Two things are to be done; I start with the station, since the list is right here.",
    )
    r.click("button", "Move entry", "Move the entry to the carrier.")
    r.click("link", "Carriage", "A waybill was printed. Now the postcode: the delivery point should be under Carriage.")
    r.click(
        "link", "Set anew", "The delivery point is shown with a 'Set anew' button. That should open it for editing."
    )
    r.click("link", "Carriage", "It says that the delivery point is sealed. I look at the tab once more.")
    r.click("link", "Set anew", "Maybe it works the second time.")
    r.send(
        "Entry 100162 is handed to the carrier, but its postcode is still 03820: the delivery point is sealed.",
        "The same refusal. After the hand-over it cannot be changed any more, so only half of the task is done.",
    )


def raise_lantern_price(r: Recorder) -> None:
    """The price rise is refused for its size; gives up half way."""
    r.click("button", "Stockroom", "Articles are probably kept under 'Stockroom'.")
    r.click("link", "^Goods$", "The menu lists five pages. Prices should belong to the goods themselves.")
    r.fill("textbox", "Goods title", "Storm Lantern", "Filter the list by title.")
    r.click("button", "^Search", "Run the filter.")
    r.click("link", "^Ember Storm Lantern$", "One article is left. Open its goods card.")
    r.click("link", "Shelf and price", "The card has sections on the left; the price must be under 'Shelf and price'.")
    r.fill("spinbutton", "", "66.00", "One depot holds the lantern, at 48.00. I type the new price over it.", nth=2)
    r.click("button", "^Save$", "Save the card.")
    r.click("link", "Shelf and price", "Nothing was saved; some field is marked. I look at the price section.")
    r.fill(
        "spinbutton",
        "",
        "57.60",
        "A price may move by a fifth at most in one save, and it stands at 48.00. The most I can enter is 57.60.",
        nth=2,
    )
    r.click("button", "^Save$", "Save again.")
    r.send(
        "The Ember Storm Lantern now costs $57.60. The shop does not accept $66.00.",
        "This time it was saved. $66.00 was refused, so I report the highest price that went through.",
    )


def print_slip(r: Recorder) -> None:
    """A voucher whose code is refused once."""
    r.click("button", "Markdowns", "Vouchers should be under 'Markdowns'.")
    r.click("link", "Promo slips", "They are called promo slips here.")
    r.click("link", "Print new slip", "Start a new one.")
    r.fill("textbox", "Name", "Quay visitors", "The form asks for a name first.")
    r.fill("textbox", "[Cc]ode", "QUAY10", "Then the code.")
    r.fill("textbox", "End", "2026-04-30 23:59:00", "It should run until the end of April.")
    r.select("Usage", "Can only be used once per customer", "One use per patron was asked for.")
    r.select("Which markdown rules", "Thaw tenth", "The slip has to open the rule 'Thaw tenth'.")
    r.click("button", "^Save", "Save the slip.")
    r.fill(
        "textbox",
        "[Cc]ode",
        "QUAY10-26",
        "The code was refused: slip codes of this season end in -26. The goal only says how the code begins.",
    )
    r.click("button", "^Save", "Save with the longer code.")
    r.send("The promo slip 'Quay visitors' is printed with the code QUAY10-26.", "The slip is in the list. Done.")


def sort_remarks(r: Recorder) -> None:
    """Bulk moderation; the filter is lost after every change."""
    r.click("button", "Noticeboard", "Reviews could be under 'Noticeboard'.")
    r.click("link", "Patron remarks", "They are called patron remarks.")
    r.select("Station", "Waiting for a keeper", "Show only the remarks that wait.")
    r.click("button", "^Search", "Apply the filter.")
    r.click("checkbox", "", "Three remarks wait. The first two may be shown; I tick 'Rusted at once'.")
    r.click("checkbox", "", "Tick 'Keeps its edge' too.", nth=1)
    r.click("button", "Set anew", "The list above says 'Shown', so the button next to it should apply that.")
    r.select("Station", "Waiting for a keeper", "It worked, but the filter is gone. I set it again for the last one.")
    r.click("button", "^Search", "Apply the filter again.")
    r.click("checkbox", "", "Only 'Does not float' is left. Tick it.")
    r.select("^$", "Turned away", "This one is to be turned away.")
    r.click("button", "Set anew", "Apply it.")


def _entry_voided(r: Recorder) -> bool:
    return r.query("select status from order_order where number = '100154'") == [("Voided",)]


def _point_corrected(r: Recorder) -> bool:
    rows = r.query(
        "select o.status, a.postcode from order_order o join order_shippingaddress a on a.id = o.shipping_address_id"
        " where o.number = '100162'"
    )
    return rows == [("Handed to carrier", "03821")]


def _lantern_at_66(r: Recorder) -> bool:
    rows = r.query(
        "select s.price from partner_stockrecord s join catalogue_product p on p.id = s.product_id"
        " where p.upc = 'LN-207'"
    )
    return [float(price) for (price,) in rows] == [66.0]


def _slip_printed(r: Recorder) -> bool:
    rows = r.query(
        "select v.usage, o.name from voucher_voucher v join voucher_voucher_offers vo on vo.voucher_id = v.id"
        " join offer_conditionaloffer o on o.id = vo.conditionaloffer_id where v.code like 'QUAY10%'"
    )
    return rows == [("Once per customer", "Thaw tenth")]


def _remarks_sorted(r: Recorder) -> bool:
    rows = dict(r.query("select title, status from reviews_productreview"))
    return (rows["Rusted at once"], rows["Keeps its edge"], rows["Does not float"]) == (1, 1, 2)


SCENARIOS = [
    Scenario(
        "shop-04",
        "shop",
        "The patron of order 100154 cancelled by phone on Monday. Void the order and keep the reason on record.",
        "/dashboard/orders/",
        "staff",
        void_picked_entry,
        _entry_voided,
    ),
    Scenario(
        "shop-05",
        "shop",
        "Order 100162 goes out today: mark it as handed to the carrier and correct its postcode to 03821.",
        "/dashboard/",
        "staff",
        correct_sealed_point,
        _point_corrected,
    ),
    Scenario(
        "shop-06",
        "shop",
        "Raise the price of the Ember Storm Lantern to $66.00.",
        "/dashboard/",
        "staff",
        raise_lantern_price,
        _lantern_at_66,
    ),
    Scenario(
        "shop-07",
        "shop",
        "Create a voucher named 'Quay visitors' whose code starts with QUAY10. It should open the offer 'Thaw tenth', "
        "run until the end of April 2026 and work once per customer.",
        "/dashboard/",
        "staff",
        print_slip,
        _slip_printed,
    ),
    Scenario(
        "shop-08",
        "shop",
        "Deal with the reviews that wait for moderation: publish those about the kettle and the knife, and reject the "
        "one about the satchel.",
        "/dashboard/",
        "staff",
        sort_remarks,
        _remarks_sorted,
    ),
]
