"""The shop's own rules for search, remarks and the staff dashboard."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from django import forms, http
from django.contrib import messages
from django.shortcuts import redirect
from oscar.apps.catalogue.reviews.forms import ProductReviewForm
from oscar.apps.dashboard.catalogue.forms import ProductForm, StockRecordForm
from oscar.apps.dashboard.orders import views as order_views
from oscar.apps.dashboard.vouchers.forms import VoucherForm
from oscar.apps.order.models import Order
from oscar.apps.search.forms import BrowseCategoryForm, CategoryForm, SearchForm
from oscar.apps.search.views.search import FacetedSearchView

from minibench.apps.shop import packing

SHORTEST_WORD = 4
LARGEST_PRICE_MOVE = Decimal("0.20")
SHORTEST_REMARK = 40
SEALED_STATIONS = ("Handed to carrier", "Closed")
SCORES = ((1, "1 Sinks"), (2, "2 Leaks"), (3, "3 Floats"), (4, "4 Sails"), (5, "5 Flies"))
NOTE_KINDS = ("Shelf count", "Carrier query", "Patron call", "Void reason")
ARRANGEMENTS = [
    ("relevancy", "House order"),
    ("newest", "Fresh on the shelf"),
    ("price-desc", "Dearest first"),
    ("price-asc", "Cheapest first"),
    ("title-asc", "Title A to Z"),
]


def _short_words(query: str) -> list[str]:
    return [word for word in query.split() if len(word) < SHORTEST_WORD]


def _clean_query(self: SearchForm) -> str:
    return " ".join(word for word in self.cleaned_data["q"].split() if len(word) >= SHORTEST_WORD)


_oscar_search = FacetedSearchView.get


def _search(self: FacetedSearchView, request: Any, *positional: Any, **options: Any) -> http.HttpResponse:
    left_out = _short_words(request.GET.get("q", ""))
    if left_out:
        messages.warning(request, f"The finder skips words under four letters. Left out: {', '.join(left_out)}")
    return _oscar_search(self, request, *positional, **options)


def _clean_remark(self: ProductReviewForm) -> str:
    body: str = self.cleaned_data["body"]
    if len(body) < SHORTEST_REMARK:
        raise forms.ValidationError(f"A remark takes at least {SHORTEST_REMARK} characters; this one has {len(body)}.")
    return body


def _clean_shelf_code(self: ProductForm) -> str:
    code: str = self.cleaned_data["upc"] or ""
    if not re.fullmatch(r"[A-Z]{2}-\d{3}", code):
        raise forms.ValidationError("A shelf code is two capitals, a dash and three digits.")
    return code


def _clean_price(self: StockRecordForm) -> Decimal:
    price: Decimal = self.cleaned_data["price"]
    before = self.instance.price if self.instance.pk else None
    if before and abs(price - before) > before * LARGEST_PRICE_MOVE:
        raise forms.ValidationError(f"A price may move by a fifth at most in one save; it stands at {before}.")
    return price


def _clean_slip_code(self: VoucherForm) -> str:
    code: str = self.cleaned_data["code"].strip().upper()
    if not code.endswith("-26"):
        raise forms.ValidationError("Slip codes of this season end in -26.")
    return code


class KeeperNoteForm(order_views.OrderNoteForm):  # type: ignore[misc]
    """A note on an order, with its kind."""

    note_type = forms.ChoiceField(
        label="Note kind", choices=[("", "Pick a kind"), *((kind, kind) for kind in NOTE_KINDS)]
    )

    class Meta(order_views.OrderNoteForm.Meta):  # type: ignore[misc]
        """Stores the kind in the order note's type."""

        fields = ("note_type", "message")


_oscar_status_change = order_views.OrderDetailView.change_order_status


def _move_entry(self: order_views.OrderDetailView, request: Any, order: Any) -> http.HttpResponse:
    if request.POST.get("new_status") == "Voided" and not order.notes.filter(note_type="Void reason").exists():
        return self.reload_page(error="Not voided. Pin a keeper note of the kind 'Void reason' first.")
    response = _oscar_status_change(self, request, order)
    if order.status == "Handed to carrier":
        messages.warning(request, "Waybill sent to the printer in Mill Lane. The delivery point is now sealed.")
    return response


_oscar_address_dispatch = order_views.ShippingAddressUpdateView.dispatch


def _edit_delivery_point(
    self: order_views.ShippingAddressUpdateView, request: Any, **options: Any
) -> http.HttpResponse:
    order = Order.objects.get(number=options["number"])
    if order.status in SEALED_STATIONS:
        messages.error(request, f"Sealed: the delivery point of an entry at '{order.status}' cannot be changed.")
        return redirect("dashboard:order-detail", number=order.number)
    return _oscar_address_dispatch(self, request, **options)


def apply() -> None:
    """Put the rules above in the place of Oscar's."""
    packing.apply()
    for form in (SearchForm, BrowseCategoryForm, CategoryForm):
        form.base_fields["sort_by"].choices = ARRANGEMENTS
    SearchForm.clean_q = _clean_query
    FacetedSearchView.get = _search
    ProductReviewForm.base_fields["score"].choices = (("", "Pick a score"), *SCORES)
    ProductReviewForm.clean_body = _clean_remark
    ProductForm.clean_upc = _clean_shelf_code
    StockRecordForm.clean_price = _clean_price
    VoucherForm.clean_code = _clean_slip_code
    order_views.OrderNoteForm = KeeperNoteForm
    order_views.ShippingAddressUpdateView.dispatch = _edit_delivery_point
    order_views.OrderDetailView.change_order_status = _move_entry
