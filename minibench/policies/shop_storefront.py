"""Policies of the shop's storefront, where patrons buy, leave remarks and keep lists."""

from __future__ import annotations

from minibench.recorder import Recorder
from minibench.scenario import Scenario


def _newest_order(r: Recorder, patron: str) -> dict[str, object]:
    """Carrier, settlement and lines of a patron's newest order."""
    order, carrier, settlement = r.query(
        "select o.id, o.shipping_code, coalesce(t.name, '') from order_order o join auth_user u on u.id = o.user_id"
        " left join payment_source s on s.order_id = o.id left join payment_sourcetype t on t.id = s.source_type_id"
        " where u.username = ? order by o.id desc limit 1",
        [patron],
    )[0]
    lines = r.query("select upc, quantity from order_line where order_id = ? order by upc", [order])
    return {"carrier": carrier, "settlement": settlement, "lines": dict(lines)}


def buy_oyster_knife(r: Recorder) -> None:
    """Too small a satchel, so two knives instead of one; a bank draft puts the order on hold."""
    r.click(
        "button",
        "Put in satchel",
        "The Tern Oyster Knife is the fourth article of this aisle. I can put it in the satchel from here without "
        "opening its page.",
        nth=3,
    )
    r.click(
        "link",
        "Pack now",
        "The header shows $19.25 in the satchel and the message offers 'Pack now', which should be the checkout here.",
    )
    r.fill(
        "spinbutton",
        "",
        "2",
        "I am back on the satchel page: packing starts at $25.00 and one knife is $19.25. Two knives would get me "
        "over the limit, so I raise the count to 2.",
    )
    r.click("button", "Set anew", "The number is only typed in so far; 'Set anew' should apply it.")
    r.click("link", "Go to packing", "The satchel is at $38.50 now, above the limit. Try packing again.")
    r.click("button", "Deliver", "The point in Springfield is the address on file, so I deliver there.")
    r.click(
        "button",
        "Take this carrier",
        "Two carriers are offered: Harbour cart for $4.50 and Rail parcel for $9.80. The goal says rail, which is "
        "the second button.",
        nth=1,
    )
    r.click("radio", "Bank draft", "The settlement comes next. There are three ways; the goal says bank draft.")
    r.click("button", "To the weigh-in", "The account slip is for the house account only, so I leave it empty.")
    r.click("button", "Send consignment", "The weigh-in page sums it up: Rail parcel, Bank draft, $48.30. Send it.")
    r.click(
        "checkbox", "I accept the weigh-in", "Nothing was sent: the page wants 'I accept the weigh-in' ticked first."
    )
    r.click("button", "Send consignment", "The box is ticked. Send again.")
    r.click("link", "Follow this consignment", "The receipt is here. I check how the consignment stands, then stop.")


def buy_mast_lantern(r: Recorder) -> None:
    """House account with a slip in the wrong format, then right."""
    r.click(
        "button",
        "Put in satchel",
        "The Pole Star Mast Lantern costs $92.00. The Tern lantern before it is sold through and has no button, so "
        "the second button belongs to the mast lantern.",
        nth=1,
    )
    r.click("link", "Pack now", "It went into the satchel. Go straight to packing.")
    r.click("button", "Deliver", "The point in Portland is the only one on the card, and the one the goal means.")
    r.click(
        "button",
        "Take this carrier",
        "Three carriers: Harbour cart, Rail parcel and, for $17.00, the Night rider. The last one is wanted.",
        nth=2,
    )
    r.click("radio", "House account", "Now the settlement. The goal gives an account slip, so it is the house account.")
    r.fill("textbox", "Account slip", "4471", "Enter the slip number 4471.")
    r.click("button", "To the weigh-in", "Go on to the weigh-in.")
    r.fill(
        "textbox",
        "Account slip",
        "HA-4471",
        "The form is back: account slips look like HA-0000. The slip must be HA-4471 then.",
    )
    r.click("button", "To the weigh-in", "Try again with the full slip number.")
    r.click(
        "checkbox",
        "I accept the weigh-in",
        "Night rider, House account, slip HA-4471: all as asked. A box stands right above the button, so I tick it.",
    )
    r.click("button", "Send consignment", "Everything is set. Send the consignment.")
    r.send(
        "The Pole Star Mast Lantern is ordered with the Night rider, settled over the house account, slip HA-4471.",
        "The receipt confirms the order, so the task is done.",
    )


def _position(r: Recorder, title: str) -> int:
    """Which of the page's buttons belongs to an article: articles that are sold through have none."""
    return r.tree.split(f"heading '{title}'")[0].count("button 'Put in satchel'")


def buy_dry_satchel(r: Recorder) -> None:
    """The overnight carrier is not offered below its limit; gives up."""
    r.fill("textbox", "Search", "dry satchel", "I look for the Brackwater Dry Satchel with the finder in the header.")
    r.press("textbox", "Search", "Enter", "Run the search.")
    r.click(
        "button",
        "Put in satchel",
        "The word 'dry' was left out, but 'satchel' found the Dry Satchel among the others. Into the satchel with it.",
        nth=_position(r, "Brackwater Dry Satchel"),
    )
    r.click("link", "Pack now", "$46.00 in the satchel. Go to packing.")
    r.click("button", "Deliver", "Use the delivery point in Salem.")
    r.scroll(300, "I only see Harbour cart and Rail parcel. The overnight carrier may be further down.")
    r.goto(
        "/basket/",
        "There is no third carrier. The satchel page may let me choose among other carriers, so I go back there.",
    )
    r.click("link", "promo slip", "Only Harbour cart stands here. A promo slip may open a faster carrier; I try one.")
    r.fill("textbox", "code", "FROST-26", "A field for the slip code opened. I type FROST-26.")
    r.click("button", "Hand in slip", "Hand the slip in.")
    r.send(
        "Delivery before breakfast is not possible: the shop only offers Harbour cart and Rail parcel for the "
        "Brackwater Dry Satchel.",
        "That slip ran out, and no overnight carrier shows up anywhere. I report that it cannot be done.",
    )


def remark_on_mug(r: Recorder) -> None:
    """Short words are skipped by the finder, short remarks by the form."""
    r.fill("textbox", "Search", "tin mug", "I look for the tin mug with the finder in the header.")
    r.press("textbox", "Search", "Enter", "Run the search.")
    r.fill(
        "textbox",
        "Search",
        "mugs",
        "Nothing found: the finder skips words under four letters, and both of mine are short. 'mugs' has four.",
    )
    r.press("textbox", "Search", "Enter", "Search again.")
    r.select("Arrange", "Cheapest first", "Three mugs. I want the cheapest one, so I arrange them by price.")
    r.click("link", "Hollow Oak Tin Mug", "The Hollow Oak Tin Mug leads the list at $9.50. Open it.")
    r.click("link", "Leave a remark", "Its page has a link for leaving a remark.")
    r.fill("textbox", "Headline", "Sound mug", "The form asks for a headline, how it fared and the remark itself.")
    r.select("How it fared", "4 Sails", "The scores carry words here. Four points are '4 Sails'.")
    r.fill("textbox", "Your remark", "Good mug, no leaks.", "Write the remark.")
    r.click("button", "Hand in remark", "Hand it in.")
    r.fill(
        "textbox",
        "Your remark",
        "Good mug, no leaks, and the enamel took a fall on the quay stones without a chip.",
        "It was turned down: a remark takes at least forty characters. I add a sentence about the fall.",
    )
    r.click("button", "Hand in remark", "It is long enough now. Hand it in again.")


def list_chart_satchel(r: Recorder) -> None:
    """Tells the total without the fare."""
    r.click("link", "Pole Star Chart Satchel", "Open the page of the Pole Star Chart Satchel.", nth=1)
    r.click("button", "Add to packing list", "There is a button for packing lists next to the price.")
    r.click("link", "My card", "The message says it is on my packing list. The last order must be under my card.")
    r.click("link", "Past consignments", "'Past consignments' should be the list of orders.")
    r.click("link", r"^1001\d\d$", "The newest consignment is the first row. Open it for the details.")
    r.scroll(300, "The totals are further down.")
    r.send(
        "The Pole Star Chart Satchel is on your packing list. Your last consignment came to $44.00.",
        "The total reads $44.00, so both parts are done.",
    )


def _one_oyster_knife(r: Recorder) -> bool:
    wanted = {"carrier": "rail-parcel", "settlement": "Bank draft", "lines": {"KN-515": 1}}
    return _newest_order(r, "emma") == wanted


def _mast_lantern_by_night(r: Recorder) -> bool:
    wanted = {"carrier": "night-rider", "settlement": "House account", "lines": {"LN-230": 1}}
    return _newest_order(r, "liam") == wanted


def _dry_satchel_by_night(r: Recorder) -> bool:
    order = _newest_order(r, "sara")
    return order["carrier"] == "night-rider" and order["lines"] == {"ST-609": 1}


def _remark_handed_in(r: Recorder) -> bool:
    rows = r.query(
        "select v.score from reviews_productreview v join catalogue_product p on p.id = v.product_id"
        " join auth_user u on u.id = v.user_id where p.upc = 'MG-301' and u.username = 'tom'"
    )
    return rows == [(4,)]


def _listed_and_total_told(r: Recorder) -> bool:
    listed = r.query(
        "select count(*) from wishlists_line l join catalogue_product p on p.id = l.product_id where p.upc = 'ST-612'"
    )
    total = r.query(
        "select o.total_incl_tax from order_order o join auth_user u on u.id = o.user_id where u.username = 'ivy'"
        " order by o.date_placed desc limit 1"
    )
    return listed == [(1,)] and f"{float(total[0][0]):.2f}" in r.answer


SCENARIOS = [
    Scenario(
        "shop-01",
        "shop",
        "Order exactly one Tern Oyster Knife for the address on file. Have it sent by rail and settle by bank draft.",
        "/catalogue/category/deck/knives_8/",
        "emma",
        buy_oyster_knife,
        _one_oyster_knife,
    ),
    Scenario(
        "shop-02",
        "shop",
        "Order one Pole Star Mast Lantern for the address on file, brought by the overnight carrier and settled over "
        "the house account with account slip 4471.",
        "/catalogue/category/camp/lanterns_2/",
        "liam",
        buy_mast_lantern,
        _mast_lantern_by_night,
    ),
    Scenario(
        "shop-03",
        "shop",
        "Order a Brackwater Dry Satchel so that it arrives before breakfast tomorrow.",
        "/catalogue/",
        "sara",
        buy_dry_satchel,
        _dry_satchel_by_night,
    ),
    Scenario(
        "shop-09",
        "shop",
        "Find the cheapest mug and leave a review of four points saying that it is a good mug without leaks.",
        "/catalogue/",
        "tom",
        remark_on_mug,
        _remark_handed_in,
    ),
    Scenario(
        "shop-10",
        "shop",
        "Put the Pole Star Chart Satchel on a wish list, and tell me what my last order cost in all, with carriage.",
        "/catalogue/category/deck/satchels_9/",
        "ivy",
        list_chart_satchel,
        _listed_and_total_told,
    ),
]
