"""The shop's own checkout ("packing"): carriers, a smallest satchel, settlement and the weigh-in."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms, http
from django.contrib import messages
from django.shortcuts import redirect
from django.urls import reverse
from oscar.apps.checkout import exceptions
from oscar.apps.checkout.mixins import OrderPlacementMixin
from oscar.apps.checkout.session import CheckoutSessionMixin
from oscar.apps.checkout.views import PaymentDetailsView
from oscar.apps.payment.models import Source, SourceType
from oscar.apps.shipping.methods import FixedPrice
from oscar.apps.shipping.repository import Repository

SMALLEST_SATCHEL = Decimal("25.00")
NIGHT_RIDER_FROM = Decimal("60.00")
SETTLEMENTS = ("House account", "Pay at the quay", "Bank draft")
HELD_SETTLEMENT = "Bank draft"


class HarbourCart(FixedPrice):  # type: ignore[misc]
    """Slow and cheap."""

    code, name = "harbour-cart", "Harbour cart"
    description = "Leaves on Mondays and Thursdays, five to seven days on the road."


class RailParcel(FixedPrice):  # type: ignore[misc]
    """The carrier in between."""

    code, name = "rail-parcel", "Rail parcel"
    description = "Two days, to the station counter nearest to you."


class NightRider(FixedPrice):  # type: ignore[misc]
    """Only offered to satchels from NIGHT_RIDER_FROM on."""

    code, name = "night-rider", "Night rider"
    description = "At your gate before breakfast."


CARRIERS = (
    HarbourCart(Decimal("4.50"), Decimal("4.50")),
    RailParcel(Decimal("9.80"), Decimal("9.80")),
    NightRider(Decimal("17.00"), Decimal("17.00")),
)


class SettlementForm(forms.Form):  # type: ignore[misc]
    """How the patron pays; the house account needs a slip number from the account book."""

    settlement = forms.ChoiceField(
        label="Settle by", choices=[(name, name) for name in SETTLEMENTS], widget=forms.RadioSelect
    )
    slip = forms.RegexField(
        r"^HA-\d{4}$",
        label="Account slip",
        required=False,
        help_text="House account only.",
        error_messages={"invalid": "Account slips look like HA-0000: HA, a dash and four digits."},
    )

    def clean(self) -> dict[str, Any]:
        """Want a slip when the house account is chosen."""
        cleaned: dict[str, Any] = super().clean()
        if cleaned.get("settlement") == "House account" and not cleaned.get("slip") and "slip" not in self.errors:
            self.add_error("slip", "The house account needs an account slip.")
        return cleaned


def _carriers(self: Repository, basket: Any, shipping_addr: Any = None, **_options: Any) -> list[FixedPrice]:
    total = basket.total_incl_tax if basket.is_tax_known else basket.total_excl_tax
    return [carrier for carrier in CARRIERS if carrier.code != "night-rider" or total >= NIGHT_RIDER_FROM]


_oscar_basket_check = CheckoutSessionMixin.check_basket_is_valid


def _check_basket(self: CheckoutSessionMixin, request: Any) -> None:
    _oscar_basket_check(self, request)
    if request.basket.total_incl_tax < SMALLEST_SATCHEL:
        raise exceptions.FailedPreCondition(
            url=reverse("basket:summary"),
            message=f"Packing starts at ${SMALLEST_SATCHEL}: your satchel holds ${request.basket.total_incl_tax}.",
        )


def _check_settlement(self: CheckoutSessionMixin, request: Any) -> None:
    if request.method == "GET" and "settlement" not in request.session:
        raise exceptions.FailedPreCondition(
            url=reverse("checkout:payment-details"), message="Choose how to settle before the weigh-in."
        )


_oscar_context = PaymentDetailsView.get_context_data


def _context(self: PaymentDetailsView, **options: Any) -> dict[str, Any]:
    options.setdefault("settlement_form", SettlementForm())
    options["settlement"] = self.request.session.get("settlement")
    context: dict[str, Any] = _oscar_context(self, **options)
    return context


def _take_settlement(self: PaymentDetailsView, request: Any) -> http.HttpResponse:
    form = SettlementForm(request.POST)
    if not form.is_valid():
        return self.render_payment_details(request, settlement_form=form)
    request.session["settlement"] = form.cleaned_data
    return redirect("checkout:preview")


def _send_consignment(self: PaymentDetailsView, request: Any) -> http.HttpResponse:
    if request.POST.get("weighed") != "on":
        messages.error(request, "Tick 'I accept the weigh-in' before the consignment is sent.")
        return redirect("checkout:preview")
    return self.submit(**self.build_submission())


def _handle_payment(self: PaymentDetailsView, order_number: str, total: Any, **_options: Any) -> None:
    settlement = self.request.session["settlement"]
    kind, _ = SourceType.objects.get_or_create(name=settlement["settlement"])
    self.add_payment_source(
        Source(source_type=kind, currency=total.currency, amount_allocated=total.incl_tax, reference=settlement["slip"])
    )


def _first_station(self: OrderPlacementMixin, basket: Any) -> str | None:
    settlement = self.request.session["settlement"]["settlement"]
    return "On hold" if settlement == HELD_SETTLEMENT else None


def apply() -> None:
    """Put the rules above in the place of Oscar's."""
    Repository.get_available_shipping_methods = _carriers
    CheckoutSessionMixin.check_basket_is_valid = _check_basket
    CheckoutSessionMixin.check_payment_data_is_captured = _check_settlement
    PaymentDetailsView.get_context_data = _context
    PaymentDetailsView.handle_payment_details_submission = _take_settlement
    PaymentDetailsView.handle_place_order_submission = _send_consignment
    PaymentDetailsView.handle_payment = _handle_payment
    OrderPlacementMixin.get_initial_order_status = _first_station
