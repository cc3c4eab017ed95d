"""The asset ledger: Django's admin site with the desk's rules for assets, loans and leavers."""

import re
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone
from helpdesk.models import Ticket

from minibench.apps.desk.models import Asset, LoanSlip, Supplier

LONGEST_LOAN_DAYS = 21

admin.site.site_header = "Halden Freight asset ledger"
admin.site.site_title = "Asset ledger"
admin.site.index_title = "Ledgers"
admin.site.enable_nav_sidebar = False  # the asset table needs the width


class AssetForm(forms.ModelForm):  # type: ignore[type-arg]
    """Checks an asset's state against its custodian and wipe certificate."""

    class Meta:
        """Every field of an asset."""

        model = Asset
        fields = "__all__"

    def clean(self) -> dict[str, Any]:
        """Refuse scrapping without a certificate and service without a custodian."""
        data = super().clean() or self.cleaned_data
        if data.get("state") == Asset.SCRAPPED and not re.fullmatch(r"WC-\d{4}", data.get("wipe_certificate") or ""):
            self.add_error("wipe_certificate", "Scrapping needs the wipe certificate's number, WC- and four digits.")
        if data.get("state") == Asset.IN_SERVICE and data.get("custodian") is None:
            self.add_error("custodian", "An asset in service needs a custodian. Rack it if nobody has it.")
        return data


@admin.register(Asset)
class AssetAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Assets; scrapped ones are read only."""

    form = AssetForm
    list_display = ("tag", "model", "kind", "state", "site", "custodian", "cover_until")
    list_filter = ("state", "kind", "site", "supplier")
    search_fields = ("tag", "model")
    search_help_text = "Tag, or make and model."
    list_per_page = 15

    def has_change_permission(self, request: HttpRequest, obj: Asset | None = None) -> bool:
        """Scrapped assets can only be viewed."""
        scrapped = obj is not None and Asset.objects.filter(pk=obj.pk, state=Asset.SCRAPPED).exists()
        return not scrapped and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Asset | None = None) -> bool:
        """Assets leave the ledger by being scrapped, never by deletion."""
        return False

    def save_model(self, request: HttpRequest, obj: Asset, form: AssetForm, change: bool) -> None:
        """Clear the custodian of a scrapped asset and put a racked one that got a custodian into service."""
        if obj.state == Asset.SCRAPPED and obj.custodian is not None:
            messages.warning(
                request, f"{obj.tag} went to the scrap cage; {obj.custodian.username} is no longer its custodian."
            )
            obj.custodian = None
        elif obj.state == Asset.RACKED and "custodian" in form.changed_data and obj.custodian is not None:
            obj.state = Asset.IN_SERVICE
            messages.warning(
                request, f"{obj.tag} has a custodian now, so its state was moved from Racked to In service."
            )
        super().save_model(request, obj, form, change)


@admin.register(Supplier)
class SupplierAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Suppliers with their hotlines."""

    list_display = ("name", "trade", "contract", "hotline", "notice_days")


class LoanForm(forms.ModelForm):  # type: ignore[type-arg]
    """Checks the device and the length of a loan."""

    class Meta:
        """Every field of a loan slip."""

        model = LoanSlip
        fields = "__all__"

    def clean(self) -> dict[str, Any]:
        """Refuse long loans and devices that are not racked loan pool laptops."""
        data = super().clean() or self.cleaned_data
        last = timezone.now().date() + timedelta(days=LONGEST_LOAN_DAYS)
        if data.get("due_back") and data["due_back"] > last:
            self.add_error("due_back", f"Loans run for 21 days at most: {last.isoformat()} is the last possible day.")
        asset = data.get("asset")
        if asset and not self.instance.pk and (asset.kind != "Loan pool laptop" or asset.state != Asset.RACKED):
            self.add_error("asset", f"{asset.tag} is not a racked loan pool laptop.")
        return data


@admin.register(LoanSlip)
class LoanSlipAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Loan slips; opening or closing one moves the device."""

    form = LoanForm
    list_display = ("__str__", "asset", "borrower", "due_back", "returned")
    list_filter = ("returned",)

    def save_model(self, request: HttpRequest, obj: LoanSlip, form: LoanForm, change: bool) -> None:
        """Move the device to its borrower, or back to the rack."""
        super().save_model(request, obj, form, change)
        state = Asset.RACKED if obj.returned else Asset.ON_LOAN
        custodian = None if obj.returned else obj.borrower
        Asset.objects.filter(pk=obj.asset_id).update(state=state, custodian=custodian)
        messages.info(request, f"{obj.asset.tag} is now {state}. Print the slip and let the borrower sign it.")


class LeaverForm(UserChangeForm):
    """Refuses to deactivate a person who still holds assets or open cases."""

    def clean(self) -> dict[str, Any]:
        """Refuse to switch an account off that still holds assets or open cases."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if self.instance.pk and self.instance.is_active and data.get("is_active") is False:
            held = Asset.objects.filter(custodian=self.instance).count()
            cases = Ticket.objects.filter(assigned_to=self.instance, status__in=Ticket.OPEN_STATUSES).count()
            if held:
                self.add_error("is_active", f"Assets still held: {held}. Rack them in the ledger first.")
            elif cases:
                self.add_error("is_active", f"Open cases still handled: {cases}. Hand them over first.")
        return data


class PeopleAdmin(UserAdmin):  # type: ignore[type-arg]
    """People, reduced to what the desk maintains."""

    form = LeaverForm
    list_display = ("username", "first_name", "last_name", "email", "is_active")
    list_filter = ("is_active", "groups")
    list_per_page = 20
    fieldsets = (
        (None, {"fields": ("username", "first_name", "last_name", "email")}),
        ("Employment", {"fields": ("is_active", "groups")}),
    )

    def save_model(self, request: HttpRequest, obj: User, form: LeaverForm, change: bool) -> None:
        """Remind of the case that follows when an account is switched off."""
        super().save_model(request, obj, form, change)
        if change and "is_active" in form.changed_data and not obj.is_active:
            messages.warning(
                request,
                f"The account {obj.username} is off. "
                f"Log an Access case with the headline Leaver: {obj.username} today.",
            )


admin.site.unregister(User)
admin.site.register(User, PeopleAdmin)
