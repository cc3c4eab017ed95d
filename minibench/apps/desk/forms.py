"""The desk's form for logging a case: stock fields, the desk's rules."""

import re
from typing import Any

from django.core.exceptions import ValidationError
from helpdesk.forms import TicketForm
from helpdesk.models import Queue

ASSET_TAG = re.compile(r"HF-\d{5}")
COST_CENTRE = re.compile(r"CC-\d{4}-(NO|DK|PL|UK)")
FROZEN_WINDOW = "Thu 22:00-23:30"


class DeskTicketForm(TicketForm):
    """Refuses what the desk's rules refuse; every message names the rule."""

    def clean_custom_asset_tag(self) -> str:
        """Refuse tags that do not read HF- and five digits."""
        tag = str(self.cleaned_data.get("custom_asset_tag") or "").strip()
        if tag and not ASSET_TAG.fullmatch(tag):
            raise ValidationError(
                "Asset tags read HF- and five digits. Labels that start with HAL were retired; "
                "look the new tag up in the Asset Ledger."
            )
        return tag

    def clean_custom_cost_centre(self) -> str:
        """Refuse cost centres in another format."""
        centre = str(self.cleaned_data.get("custom_cost_centre") or "").strip()
        if centre and not COST_CENTRE.fullmatch(centre):
            raise ValidationError("Write the cost centre as CC-, four digits and the country, for example CC-4410-NO.")
        return centre

    def clean(self) -> dict[str, Any]:
        """Apply the rules that join several fields."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        lane = Queue.objects.filter(pk=data.get("queue") or 0).values_list("slug", flat=True).first()
        ring = data.get("custom_ring") or ""
        if data.get("priority") == "1" and not ring.startswith("Ring 0"):
            self.add_error("priority", "P1 is kept for Ring 0. Choose Ring 0 or lower the urgency to P2.")
        if lane == "DOCK" and not data.get("custom_berth"):
            self.add_error("custom_berth", "Dockside cases need a berth.")
        if lane == "EQUIP" and not data.get("custom_cost_centre"):
            self.add_error("custom_cost_centre", "Equipment cases need a cost centre.")
        if lane == "CHANGE":
            self._check_change(data)
        return data

    def _check_change(self, data: dict[str, Any]) -> None:
        window = data.get("custom_change_window")
        if not window:
            self.add_error("custom_change_window", "Changes need a change window.")
        elif window == FROZEN_WINDOW:
            self.add_error(
                "custom_change_window", f"{FROZEN_WINDOW} is frozen until 20 March 2026 (customs quarter close)."
            )
        if "rollback:" not in str(data.get("body") or "").lower():
            self.add_error("body", "Describe the way back on a line that starts with Rollback:")
