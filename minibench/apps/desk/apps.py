"""Application configuration: installs the desk's vocabulary and absolute times once Django is loaded."""

from typing import Any

from django.apps import AppConfig


class DeskConfig(AppConfig):
    """Registers the asset ledger's models and relabels the stock interface."""

    name = "minibench.apps.desk"
    label = "desk"
    verbose_name = "Asset ledger"
    default_auto_field = "django.db.models.AutoField"

    def ready(self) -> None:
        """Install the labels and absolute times."""
        from django.contrib.humanize.templatetags.humanize import NaturalTimeFormatter
        from django.utils.formats import date_format
        from django.utils.translation import trans_real

        from minibench.apps.desk.labels import LABELS

        def absolute_time(value: Any) -> str:
            return date_format(value, "j M Y, H:i") if hasattr(value, "hour") else str(value)

        # "two months ago" would count from the day of the recording, not from the frozen clock
        NaturalTimeFormatter.string_for = staticmethod(absolute_time)
        catalogue = trans_real.translation("en")._catalog
        for stock, own in LABELS.items():
            catalogue[stock] = own
