"""Menu of the staff dashboard: Oscar's pages under the shop's own names and order."""

from __future__ import annotations


def _menu(label: str, icon: str, children: dict[str, str]) -> dict[str, object]:
    return {
        "label": label,
        "icon": f"fas fa-{icon}",
        "children": [{"label": name, "url_name": f"dashboard:{url}"} for name, url in children.items()],
    }


DASHBOARD: list[dict[str, object]] = [
    {"label": "Morning board", "icon": "fas fa-list", "url_name": "dashboard:index"},
    _menu(
        "Dispatch desk",
        "shopping-cart",
        {
            "Order ledger": "order-list",
            "Ledger totals": "order-stats",
            "Depots": "partner-list",
            "Freight tariffs": "shipping-method-list",
        },
    ),
    _menu(
        "Stockroom",
        "sitemap",
        {
            "Goods": "catalogue-product-list",
            "Goods templates": "catalogue-class-list",
            "Aisles": "catalogue-category-list",
            "Bundles": "range-list",
            "Thin shelf": "stock-alert-list",
        },
    ),
    _menu("Patrons", "users", {"Patron cards": "users-index", "Back-in-stock pleas": "user-alert-list"}),
    _menu("Markdowns", "bullhorn", {"Markdown rules": "offer-list", "Promo slips": "voucher-list"}),
    _menu(
        "Noticeboard",
        "folder",
        {"Leaflets": "page-list", "Letter drafts": "comms-list", "Patron remarks": "reviews-list"},
    ),
    {"label": "Tally sheets", "icon": "fas fa-chart-bar", "url_name": "dashboard:reports-index"},
]
