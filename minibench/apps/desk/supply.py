"""The supply counter: a small catalogue with priced options whose orders become equipment cases."""

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from helpdesk.models import Queue, Ticket

from minibench.apps.desk.forms import COST_CENTRE
from minibench.apps.desk.models import SITES, SupplyOrder

APPROVAL_LIMIT = 15_000
STAGES = ("Placed", "Cost check", "Picked at Aarhus", "Imaged", "Handed over")


@dataclass(frozen=True)
class Option:
    """One choice of an option group: its price in NOK on top of the item's, and a remark shown once chosen."""

    label: str
    extra: int = 0
    remark: str = ""


@dataclass(frozen=True)
class Item:
    """Something that the counter hands out."""

    slug: str
    name: str
    price: int
    delivery: int
    pitch: str
    groups: tuple[tuple[str, tuple[Option, ...]], ...]


CATALOGUE = (
    Item("fjord-14", "Fjord 14 laptop", 11_900, 4, "The standard machine for office staff.", (
        ("Memory", (Option("16 GB"), Option("32 GB", 1_850))),
        ("Docking", (Option("No dock"), Option("Quay dock", 1_290), Option("Travel dock", 640))),
        ("Lid", (Option("Slate"), Option("Sand"))),
    )),
    Item("fjord-16", "Fjord 16 laptop", 14_200, 9, "For crane planners and stowage planners only.", (
        ("Memory", (
            Option("32 GB"),
            Option("64 GB", 3_200, "64 GB is built to order: delivery becomes 14 working days."),
        )),
        ("Graphics", (Option("Shared"), Option("Planner card", 2_450))),
        ("Docking", (Option("No dock"), Option("Quay dock", 1_290))),
    )),
    Item("rugged-tab", "Rugged Tab 3", 7_650, 6, "For drivers and yard crews.", (
        ("Carrier", (Option("Hand strap", 140), Option("Shoulder strap", 220), Option("Cab cradle", 980))),
        ("SIM plan", (
            Option("No SIM"),
            Option("Nordic", 99),
            Option("Baltic", 129, "Baltic SIMs are activated by the Gdynia desk on the next working day."),
        )),
    )),
    Item("harbour-headset", "Harbour headset", 890, 2, "Noise cancelling, for the bridge rooms.", (
        ("Plug", (Option("USB-C"), Option("Jack"))),
        ("Ear side", (Option("Left"), Option("Right"), Option("Both", 210))),
    )),
)  # fmt: skip


@login_required
def counter(request: HttpRequest) -> HttpResponse:
    """The catalogue's front page."""
    return render(request, "desk/counter.html", {"items": CATALOGUE, "limit": APPROVAL_LIMIT, "recent": _recent()})


@login_required
def item(request: HttpRequest, slug: str) -> HttpResponse:
    """One item's order form; a valid order opens an equipment case."""
    chosen = next((entry for entry in CATALOGUE if entry.slug == slug), None)
    if chosen is None:
        raise Http404(f"no item {slug} at the counter")
    context = {"item": chosen, "sites": SITES, "errors": [], "values": request.POST, "recent": _recent()}
    if request.method != "POST":
        return render(request, "desk/item.html", context)
    picks = [_pick(request, name, options) for name, options in chosen.groups]
    total = chosen.price + sum(pick.extra for pick in picks)
    errors = _order_errors(request, total)
    if errors:
        return render(request, "desk/item.html", {**context, "errors": errors})
    order = SupplyOrder.objects.create(
        item=chosen.name,
        options=", ".join(pick.label for pick in picks),
        total=total,
        receiver=request.POST["receiver"].strip(),
        berth=request.POST["berth"],
        cost_centre=request.POST["cost_centre"].strip(),
        approver=request.POST.get("approver", "").strip(),
    )
    Ticket.objects.create(
        title=f"{order}: {order.item} for {order.receiver}",
        description=f"{order.options}. {order.total} NOK on {order.cost_centre}, to {order.berth}.",
        queue=Queue.objects.get(slug="EQUIP"),
        submitter_email=request.user.email,
        priority=4,
    )
    messages.success(
        request, f"Order {order} placed. Quote this number, not the case number, when you call the counter."
    )
    return redirect("supply-order", order.pk)


def _recent() -> list[SupplyOrder]:
    return list(SupplyOrder.objects.order_by("-pk")[:6])


def _pick(request: HttpRequest, group: str, options: tuple[Option, ...]) -> Option:
    return next((option for option in options if option.label == request.POST.get(group)), options[0])


def _order_errors(request: HttpRequest, total: int) -> list[str]:
    errors = []
    if not request.POST.get("receiver", "").strip():
        errors.append("Name the person who receives the item.")
    if not COST_CENTRE.fullmatch(request.POST.get("cost_centre", "").strip()):
        errors.append("Write the cost centre as CC-, four digits and the country, for example CC-4410-NO.")
    if total > APPROVAL_LIMIT and not request.POST.get("approver", "").strip():
        errors.append(f"This order costs {total} NOK. Above {APPROVAL_LIMIT} NOK the counter needs a budget approver.")
    return errors


@login_required
def order(request: HttpRequest, pk: int) -> HttpResponse:
    """The page after an order: totals and the stages that it passes."""
    return render(request, "desk/order.html", {"order": SupplyOrder.objects.get(pk=pk), "stages": STAGES})
