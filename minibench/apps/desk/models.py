"""The asset ledger and the supply counter's orders."""

from typing import ClassVar

from django.contrib.auth.models import User
from django.db import models

SITES = ["Bergen Quay", "Aarhus Hub", "Gdynia Terminal", "Leith Depot"]


class Supplier(models.Model):
    """A company that sells, repairs or destroys equipment."""

    name = models.CharField(max_length=60)
    trade = models.CharField("delivers", max_length=60)
    contract = models.CharField("contract number", max_length=20)
    hotline = models.CharField(max_length=30)
    notice_days = models.PositiveIntegerField("reaction time (working days)")

    def __str__(self) -> str:
        return self.name


class Asset(models.Model):
    """One piece of equipment with a tag."""

    RACKED, IN_SERVICE, ON_LOAN, SCRAPPED = "Racked", "In service", "On loan", "Scrapped"
    STATES: ClassVar[list[str]] = [RACKED, IN_SERVICE, ON_LOAN, SCRAPPED]
    KINDS: ClassVar[list[str]] = [
        "Laptop",
        "Rugged tablet",
        "Scanner",
        "Screen",
        "Label printer",
        "Radio",
        "Loan pool laptop",
    ]

    tag = models.CharField("asset tag", max_length=12, unique=True)
    model = models.CharField("make and model", max_length=60)
    kind = models.CharField(max_length=30, choices=[(kind, kind) for kind in KINDS])
    state = models.CharField(max_length=20, choices=[(state, state) for state in STATES], default=RACKED)
    site = models.CharField("berth", max_length=30, choices=[(site, site) for site in SITES])
    custodian = models.ForeignKey(User, models.SET_NULL, null=True, blank=True, related_name="assets")
    supplier = models.ForeignKey(Supplier, models.PROTECT)
    bought = models.DateField("bought on")
    cover_until = models.DateField("cover ends")
    price = models.PositiveIntegerField("book value (NOK)")
    wipe_certificate = models.CharField(max_length=20, blank=True, help_text="Issued by the wiping contractor.")

    class Meta:
        """Sorted by tag."""

        ordering: ClassVar[list[str]] = ["tag"]

    def __str__(self) -> str:
        return f"{self.tag} {self.model}"


class LoanSlip(models.Model):
    """A device of the loan pool that somebody has borrowed."""

    asset = models.ForeignKey(Asset, models.PROTECT, verbose_name="loan pool device")
    borrower = models.ForeignKey(User, models.PROTECT)
    due_back = models.DateField("due back")
    purpose = models.CharField(max_length=100)
    returned = models.BooleanField("handed back", default=False)

    def __str__(self) -> str:
        return f"LS-{self.pk:04d}"


class SupplyOrder(models.Model):
    """An order placed at the supply counter."""

    item = models.CharField(max_length=60)
    options = models.CharField(max_length=200)
    total = models.PositiveIntegerField("total (NOK)")
    receiver = models.CharField(max_length=60)
    berth = models.CharField(max_length=30)
    cost_centre = models.CharField(max_length=20)
    approver = models.CharField(max_length=60, blank=True)

    def __str__(self) -> str:
        return f"SC-{1040 + self.pk}"
