"""Scripted policies of the shop: five on the storefront (patrons), five in the Backroom (staff)."""

from __future__ import annotations

from minibench.policies import shop_backroom, shop_storefront
from minibench.scenario import Login

PASSWORD = "pass12345"
SMALL = ("shop-01", "shop-04", "shop-06", "shop-09")


def _login(email: str) -> Login:
    fields = {"#id_login-username": email, "#id_login-password": PASSWORD}
    return Login("/accounts/login/", fields, "[name=login_submit]")


LOGINS = {
    "staff": _login("staff@fennimore.example"),
    **{name: _login(f"{name}@mail.example") for name in ("emma", "liam", "sara", "tom", "ivy")},
}

SCENARIOS = sorted([*shop_storefront.SCENARIOS, *shop_backroom.SCENARIOS], key=lambda scenario: scenario.id)
