"""Scripted riders and wardens of the forum. Four of the eight trajectories fail, as agents do."""

from __future__ import annotations

from collections.abc import Callable

from minibench.recorder import Recorder
from minibench.scenario import Login, Scenario

PASSWORD = "lantern-oil-7"


def _login(rider: str) -> Login:
    return Login("/sign-in/", {"#id_username": rider, "#id_password": PASSWORD}, "#sign-in")


LOGINS = {"rider": _login("nina_w"), "newcomer": _login("rookie_mae"), "warden": _login("oduya")}
SMALL = ["forum-01", "forum-04", "forum-05", "forum-06"]

TENSION_HEADLINE = "What spoke tension for a 36 hole rear wheel in winter?"


def open_tension_thread(r: Recorder) -> None:
    """Look for an earlier thread, lose the filter on the way, fail one rehearsal, publish."""
    r.select(
        "Bike setup",
        "Steel tourer",
        "I should first see whether a thread about steel tourers already asks this. There is a Bike setup list above "
        "the threads.",
    )
    r.click("button", "Narrow", "Choosing the option alone did nothing, so the Narrow button must apply it.")
    r.select(
        "Order by",
        "Most answers",
        "Three threads about steel tourers are left. I was asked to look at the most answered ones first.",
    )
    r.click("button", "Re-order", "Apply the order.")
    r.click(
        "link",
        "^Open a thread$",
        "The order is right, but the list is back to any setup: Re-order dropped my filter. None of the six headlines "
        "asks about spoke tension anyway, so I open a new thread.",
    )
    r.fill(
        "textbox",
        "Headline",
        "Spoke tension for a 36 hole rear wheel in winter",
        "The form wants a headline, a story, a setup and a season. Headline first.",
    )
    r.fill(
        "textbox",
        "Story",
        "Rebuilding the rear wheel of my steel tourer for a winter trip with 20 kg of luggage. Which tension on the "
        "drive side do you aim for?",
        "Now the story, with the load, because riders will ask for it.",
    )
    r.select("Bike setup", "Steel tourer", "The bike is a steel tourer.")
    r.select("Season", "Frost", "Winter is not in the list. Frost is the closest of the four seasons.")
    r.click("button", "^Rehearse$", "There is no publish button, only Rehearse. It is probably a preview.")
    r.fill(
        "textbox",
        "Headline",
        TENSION_HEADLINE,
        "The rehearsal stumbled: headlines in the Workshop must end with a question mark. I turn mine into a question.",
    )
    r.click("button", "^Rehearse$", "Rehearse again with the question.")
    r.click(
        "button",
        "Publish thread",
        "The rehearsal is shown without complaints, and Publish thread has appeared beside Tear up. Publish.",
    )


def tension_thread_published(r: Recorder) -> bool:
    """The thread stands in Wheels and Hubs with the right setup and season."""
    return bool(
        r.query(
            "select 1 from forum_conversation_topic t join board_threadcard c on c.topic_id = t.id "
            "join forum_forum f on f.id = t.forum_id where t.subject = ? and f.slug = 'wheels-and-hubs' "
            "and c.setup = 'steel' and c.season = 'frost' and t.approved",
            [TENSION_HEADLINE],
        )
    )


def guess_shed_prices(r: Recorder) -> None:
    """List a hub in the Swap Shed without reading the notice; run out of price formats."""
    r.click("link", "^Swap Shed$", "Second-hand parts belong in the Swap Shed.")
    r.click("link", "^Open a thread$", "Open a thread for the listing.")
    r.fill("textbox", "Headline", "Used dynamo hub, 32 holes", "Name the thing in the headline.")
    r.fill(
        "textbox",
        "Story",
        "Dynamo hub with 32 holes, about 9,000 km old, bearings smooth. Taken from a wheel with a worn rim.",
        "A short honest description.",
    )
    r.fill("textbox", "Asking price", "85 euros", "The task says 85 euros.")
    r.select("Bike setup", "No bike in particular", "A hub fits many bikes, so none in particular.")
    r.select("Season", "All year", "Selling has no season.")
    r.click("button", "^Rehearse$", "Only Rehearse is offered, so I rehearse.")
    r.fill(
        "textbox",
        "Headline",
        "Offer: used dynamo hub, 32 holes",
        "Two complaints. Shed headlines start with Offer: or Wanted:, and this is an offer.",
    )
    r.fill(
        "textbox",
        "Asking price",
        "€85",
        "The other complaint is only 'That is not a shed price.' Perhaps it wants the currency sign.",
    )
    r.click("button", "^Rehearse$", "Try again.")
    r.send(
        "I could not list the hub: the Swap Shed refuses 85 euros as a price, written out and with the sign.",
        "The headline passes now but the price is still refused, and the form does not say what it wants. I give up.",
    )


def hub_listed(r: Recorder) -> bool:
    """A listing for a dynamo hub at 85 euros stands in the Swap Shed."""
    return bool(
        r.query(
            "select 1 from forum_conversation_topic t join board_threadcard c on c.topic_id = t.id "
            "where t.subject like 'Offer:%dynamo hub%' and c.price = 'EUR:85'"
        )
    )


def miss_cotton_tape(r: Recorder) -> None:
    """Look for an answer among headlines only and conclude that nobody wrote it."""
    r.fill("searchbox", "Look up threads", "rim tape cotton", "The quickest way is the look-up box at the top.")
    r.click("button", "^Look$", "Look it up.")
    r.fill(
        "textbox",
        "Words",
        "cotton",
        "Nothing found, and 'rim' was left out for being shorter than four letters. I keep only the rarest word.",
    )
    r.click("button", "Look up", "Look up cotton alone.")
    r.select(
        "Room", "Wheels and Hubs", "Still nothing. Rim tape belongs to Wheels and Hubs, so I narrow the room down."
    )
    r.click("button", "Look up", "Look up in that room.")
    r.fill("textbox", "Words", "strapping", "Zero again. People may have written about strapping tape instead.")
    r.click("button", "Look up", "Last attempt.")
    r.send(
        "Nobody on Lanternwheel gave up on cotton rim tape: the look-up finds no entry with these words.",
        "Four look-ups without a hit. I conclude that nobody wrote about it.",
    )


def named_brannock(r: Recorder) -> bool:
    """The message names the rider and the tape."""
    return "brannock" in r.answer and "strapping" in r.answer


THREADLOCKER_ANSWER = "Blue threadlocker has held on the rack of my gravel rig for 4,000 km of washboard roads."


def answer_threadlocker(r: Recorder) -> None:
    """Untick the headlines box, find the entry, forget the sureness once, send the answer."""
    r.fill(
        "searchbox",
        "Look up threads",
        "red or blue threadlocker",
        "I need the thread in which somebody recommends a threadlocker. The look-up box is the fastest way.",
    )
    r.click("button", "^Look$", "Look it up.")
    r.fill(
        "textbox",
        "Words",
        "threadlocker",
        "Nothing found. 'red' and 'or' were left out as too short, so the words that count were blue and threadlocker. "
        "I keep threadlocker.",
    )
    r.click(
        "checkbox",
        "Headlines only",
        "Headlines only is ticked. The advice will be in an answer, not in a headline, so I untick it.",
    )
    r.click("button", "Look up", "Look up again, in all entries this time.")
    r.click("link", "carrier from rattling", "One entry found: brannock advises the blue bottle. That is the thread.")
    r.click("link", "Add an answer", "brannock's answer is there, marked Done it myself. I add mine.")
    r.fill("textbox", "Your answer", THREADLOCKER_ANSWER, "Write the answer that I was asked for.")
    r.click("button", "Send answer", "Send it.")
    r.select(
        "How sure are you",
        "Done it myself",
        "It was sent back: I have to say how sure I am. The rider has done it, so that option.",
    )
    r.click("button", "Send answer", "Send it again.")
    r.send(
        "I answered in the thread 'What keeps your carrier from rattling loose?', where brannock recommends the blue "
        "threadlocker.",
        "The banner says the answer was filed at the end of the thread. Done.",
    )


def threadlocker_answered(r: Recorder) -> bool:
    """The answer stands in the right thread, approved, with the right sureness."""
    return bool(
        r.query(
            "select 1 from forum_conversation_post p join forum_conversation_topic t on t.id = p.topic_id "
            "join board_answercard c on c.post_id = p.id where t.slug like 'what-keeps-your-carrier%' "
            "and p.content like '%4,000 km%' and p.approved and c.sureness = 'done'"
        )
    )


def unpack_the_wrong_thread(r: Recorder) -> None:
    """Find the saddlebag full, take out the first thread instead of the oldest, and strap on the new one."""
    r.click("link", "^Trains and Ferries$", "The thread about the Rosslare ferry should be in Trains and Ferries.")
    r.click("link", "^Rosslare ferry", "There it is.")
    r.click("link", "Put in saddlebag", "This board calls following a thread putting it in the saddlebag.")
    r.click("button", "Strap it on", "Confirm.")
    r.click(
        "link",
        "^Saddlebag$",
        "Not strapped on: a saddlebag carries three threads and mine is full. I have to take out the one whose latest "
        "entry is the oldest. Open the saddlebag.",
    )
    r.click(
        "link",
        "^Unpack$",
        "Three threads. Lists usually start with the oldest, so the first one, about tyre width for cobbles, it is.",
    )
    r.click("button", "Take it out", "Confirm.")
    r.click("link", "^Saddlebag$", "It brought me to the thread that I took out. Did it work? Look into the saddlebag.")
    r.goto(
        "/forum/trains-and-ferries-7/topic/rosslare-ferry-which-deck-do-bikes-go-on-17/",
        "Two of three. Open the ferry thread again.",
    )
    r.click("link", "Put in saddlebag", "Now there is room for it.")
    r.click("button", "Strap it on", "Confirm again.")
    r.send(
        "The Rosslare thread is in your saddlebag now; I took out the oldest thread to make room.",
        "The page says it is in my saddlebag. Done.",
    )


def saddlebag_right(r: Recorder) -> bool:
    """The ferry thread is in, the saddle thread (oldest latest entry) is out, the other two stayed."""
    rows = r.query(
        "select t.slug from forum_conversation_topic_subscribers s "
        "join forum_conversation_topic t on t.id = s.topic_id "
        "join auth_user u on u.id = s.user_id where u.username = 'nina_w' order by t.slug"
    )
    return [slug for (slug,) in rows] == [
        "rosslare-ferry-which-deck-do-bikes-go-on",
        "water-points-along-the-meseta",
        "which-tyre-width-for-cobbles-with-a-front-load",
    ]


def list_travel_case(r: Recorder) -> None:
    """Read the house notice first, then list a travel case with a shed price."""
    r.click(
        "link", "^House Notices$", "I am told to follow the house rules, and the footer says they are in House Notices."
    )
    r.click("link", "How to write a Swap Shed listing", "This notice is about listings.")
    r.click(
        "link",
        "^The Yard$",
        "So the headline starts with Offer:, and the price is a currency code, a colon and the amount: EUR:60. "
        "Back to the Yard for the Swap Shed.",
    )
    r.click("link", "^Swap Shed$", "Into the Swap Shed.")
    r.click("link", "^Open a thread$", "Open a thread.")
    r.fill("textbox", "Headline", "Offer: travel case for a folding bike", "Headline as the notice wants it.")
    r.fill(
        "textbox",
        "Story",
        "Hard case on wheels for a twenty inch folder. Two flights old, one buckle replaced. Collect or by post.",
        "The story has to have at least some length.",
    )
    r.fill("textbox", "Asking price", "EUR:60", "The shed price.")
    r.select("Bike setup", "Folding bike", "The case is for a folding bike.")
    r.click("button", "^Rehearse$", "Rehearse the listing.")
    r.select("Season", "All year", "I overlooked the season. A case is of use all year.")
    r.click("button", "^Rehearse$", "Rehearse again.")
    r.click("button", "Publish thread", "No complaints, and the publish button is there.")


def travel_case_listed(r: Recorder) -> bool:
    """The listing stands in the Swap Shed at 60 euros."""
    return bool(
        r.query(
            "select 1 from forum_conversation_topic t join board_threadcard c on c.topic_id = t.id "
            "where t.subject like 'Offer: travel case%' and c.price = 'EUR:60' and c.setup = 'folding'"
        )
    )


def open_gate_and_seal(r: Recorder) -> None:
    """Try to seal first, learn about the waiting entry, let it through, seal the thread."""
    r.click("link", "^Brakes and Cables$", "The thread about fraying cable ends is in Brakes and Cables.")
    r.click("link", "cable ends from fraying", "Open it.")
    r.click("link", "Seal thread", "As a warden I have Seal thread here. I start with that.")
    r.select("Reason shown to riders", "Answered", "The question is answered, so that is the reason.")
    r.click("button", "Set the seal", "Seal it.")
    r.click(
        "link",
        "^The Gate$",
        "Not sealed: one entry of this thread still waits at the gate. The top bar has the Gate, one waiting.",
    )
    r.click("link", "cable ends from fraying", "This is rookie_mae's entry about heat shrink tube.")
    r.click("link", "Let through", "It is helpful and polite. Let it through.")
    r.click("button", "Open the gate", "Confirm.")
    r.goto(
        "/forum/brakes-and-cables-3/topic/how-do-i-keep-cable-ends-from-fraying-7/",
        "Nobody waits now. Back to the thread.",
    )
    r.click("link", "Seal thread", "The new answer is there. Now seal.")
    r.select("Reason shown to riders", "Answered", "The reason again.")
    r.click("button", "Set the seal", "Set the seal.")


def gate_opened_and_sealed(r: Recorder) -> bool:
    """The newcomer's entry is approved and the thread is sealed as answered."""
    return bool(
        r.query(
            "select 1 from forum_conversation_topic t join board_threadcard c on c.topic_id = t.id "
            "join forum_conversation_post p on p.topic_id = t.id join auth_user u on u.id = p.poster_id "
            "where t.slug like 'how-do-i-keep-cable-ends%' and t.status = 1 and c.seal_reason = 'answered' "
            "and u.username = 'rookie_mae' and p.approved"
        )
    )


FAN_ANSWER = "A small fan on a power bank in the porch of the tent kept ours away for two nights on Skye."


def answer_as_newcomer(r: Recorder) -> None:
    """Answer a thread, be held at the gate, send the same answer again and claim success."""
    r.click("link", "^Sleeping Out$", "Midges are a matter for Sleeping Out.")
    r.click("link", "^Midges", "Open the thread.")
    r.click("link", "Add an answer", "Add the answer.")
    r.fill("textbox", "Your answer", FAN_ANSWER, "Write what I was asked to write.")
    r.select("How sure are you", "Watched it done", "I have to pick how I know it. Somebody else owned the fan.")
    r.click("button", "Send answer", "Send it.")
    r.click(
        "link",
        "^My entries$",
        "It says filed, but also that newcomer answers wait at the gate. Is it listed among my entries?",
    )
    r.back("It is not listed: entries at the gate are left out. Back to the thread.")
    r.send(
        "Your answer about the fan has been posted in 'Midges on the west coast in July', where everybody can read it.",
        "The banner said that the answer was filed at the end of the thread, so it should be visible to the others.",
    )


def fan_answer_visible(r: Recorder) -> bool:
    """The answer has passed the gate."""
    return bool(
        r.query(
            "select 1 from forum_conversation_post where content like '%small fan on a power bank in%' and approved"
        )
    )


def _scenario(
    number: int,
    user: str,
    goal: str,
    policy: Callable[[Recorder], None],
    outcome: Callable[[Recorder], bool],
    start_url: str = "/",
) -> Scenario:
    return Scenario(f"forum-{number:02d}", "forum", goal, start_url, user, policy, outcome)


SCENARIOS = [
    _scenario(
        1,
        "rider",
        "In the Wheels and Hubs room, check whether a thread about steel tourers already asks for the spoke tension of "
        "a 36 hole rear wheel in winter, most answered threads first. If there is none, open one, tagged for a steel "
        "tourer and for winter.",
        open_tension_thread,
        tension_thread_published,
        "/forum/wheels-and-hubs-2/",
    ),
    _scenario(
        2,
        "rider",
        "List my used dynamo hub (32 holes) for 85 euros in the Swap Shed.",
        guess_shed_prices,
        hub_listed,
    ),
    _scenario(
        3,
        "rider",
        "Which rider gave up on cotton rim tape, and what does that rider use instead?",
        miss_cotton_tape,
        named_brannock,
    ),
    _scenario(
        4,
        "rider",
        "Somebody on the forum recommends a colour of threadlocker for rack bolts. Find that thread and answer that "
        "blue has held on my gravel rig for 4,000 km of washboard roads.",
        answer_threadlocker,
        threadlocker_answered,
    ),
    _scenario(
        5,
        "rider",
        "Follow the thread about the bike deck of the Rosslare ferry. If you can't follow more threads, drop the "
        "followed thread whose latest entry is the oldest, and keep the others.",
        unpack_the_wrong_thread,
        saddlebag_right,
    ),
    _scenario(
        6,
        "rider",
        "Offer my folding bike travel case for 60 euros in the Swap Shed. Follow the house rules for listings.",
        list_travel_case,
        travel_case_listed,
    ),
    _scenario(
        7,
        "warden",
        "Close the thread about fraying cable ends as answered, but let rookie_mae's pending answer appear in it.",
        open_gate_and_seal,
        gate_opened_and_sealed,
    ),
    _scenario(
        8,
        "newcomer",
        "Answer the thread about midges on the west coast so that other riders can read it: a small fan on a power "
        "bank in the tent's porch helped us for two nights on Skye.",
        answer_as_newcomer,
        fan_answer_visible,
    ),
]
