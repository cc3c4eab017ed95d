"""Fills the service desk: people, lanes, particulars, cases, the Playbook, lenses and the asset ledger."""

import random
from datetime import date, timedelta

import django

django.setup()

from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.contrib.sites.models import Site  # noqa: E402
from django.core.management import call_command  # noqa: E402
from helpdesk.models import (  # noqa: E402
    Checklist,
    ChecklistTask,
    CustomField,
    FollowUp,
    KBCategory,
    KBItem,
    PreSetReply,
    Queue,
    SavedSearch,
    Ticket,
    TicketCustomFieldValue,
)
from helpdesk.query import query_to_base64  # noqa: E402

from minibench.apps.desk.cases import CASES, FIRST_CASE, Case  # noqa: E402
from minibench.apps.desk.models import SITES, Asset, LoanSlip, Supplier, SupplyOrder  # noqa: E402
from minibench.apps.desk.playbook import CHAPTERS  # noqa: E402
from minibench.clock import TODAY  # noqa: E402

PASSWORD = "harbour-light-7"
AGENTS = {"tuva": "Tuva Berg", "ingrid": "Ingrid Dahl", "jonas": "Jonas Vik"}
EMPLOYEES = [
    "bjorn.aas",
    "kari.moe",
    "mads.holm",
    "freja.lind",
    "piotr.zielinski",
    "ewa.nowak",
    "callum.reid",
    "isla.grant",
]
LANES = {
    "DOCK": "Dockside Incidents",
    "EQUIP": "Equipment Requests",
    "ACCESS": "Access and Badges",
    "CHANGE": "Change Calendar",
}
WINDOWS = ["Tue 04:00-06:00", "Thu 22:00-23:30", "Sun 05:00-09:00"]
PARTICULARS = [
    ("berth", "Berth", "list", SITES, False),
    ("ring", "Impact ring", "list", ["Ring 0 - Terminal", "Ring 1 - Team", "Ring 2 - Person"], False),
    ("asset_tag", "Asset tag", "varchar", None, False),
    ("cost_centre", "Cost centre", "varchar", None, False),
    ("change_window", "Change window", "list", WINDOWS, False),
    ("vendor_ref", "Vendor reference", "varchar", None, True),
]
SUPPLIERS = [
    ("Nordwipe AS", "wiping and scrapping", "NW-2208", "+47 55 01 77", 2),
    ("Fjord Computers", "laptops and docks", "FC-1190", "+47 22 40 18", 4),
    ("Kaiscan GmbH", "scanners and cradles", "KS-0473", "+49 40 88 120", 3),
    ("Baltic Radio", "yard radios", "BR-7719", "+48 58 620 11", 5),
]
# tag, make and model, kind, state, berth, custodian, supplier, bought, book value
ASSETS = [
    ("HF-20417", "Fjord 14", "Laptop", "In service", 0, "kari.moe", 1, date(2024, 5, 14), 6100),
    ("HF-20418", "Fjord 14", "Laptop", "Racked", 0, None, 1, date(2024, 5, 14), 6100),
    ("HF-20501", "Fjord 16", "Laptop", "In service", 0, "bjorn.aas", 1, date(2023, 9, 1), 7400),
    ("HF-20502", "Fjord 16", "Laptop", "Racked", 0, None, 1, date(2025, 2, 3), 12900),
    ("HF-20622", "Fjord 14", "Laptop", "In service", 1, "mads.holm", 1, date(2024, 1, 22), 5200),
    ("HF-20640", "Fjord 14", "Laptop", "In service", 1, "freja.lind", 1, date(2022, 3, 8), 900),
    ("HF-20655", "Fjord 14", "Laptop", "In service", 1, "jonas", 1, date(2023, 11, 20), 4800),
    ("HF-20711", "Fjord 14", "Laptop", "In service", 2, "ewa.nowak", 1, date(2021, 6, 30), 0),
    ("HF-20712", "Fjord 16", "Laptop", "In service", 2, "piotr.zielinski", 1, date(2024, 8, 19), 9900),
    ("HF-30118", "Kaiscan K7", "Scanner", "In service", 3, "callum.reid", 2, date(2023, 4, 17), 2100),
    ("HF-30127", "Kaiscan K7", "Scanner", "Racked", 2, None, 2, date(2023, 4, 17), 2100),
    ("HF-30131", "Kaiscan K9", "Scanner", "In service", 2, "ewa.nowak", 2, date(2025, 10, 6), 5600),
    ("HF-40233", "Labelmate 200", "Label printer", "In service", 2, "ewa.nowak", 2, date(2022, 12, 1), 1300),
    ("HF-40260", "Vista 27 screen", "Screen", "In service", 0, "kari.moe", 1, date(2024, 2, 12), 1800),
    ("HF-40261", "Vista 27 screen", "Screen", "Racked", 0, None, 1, date(2024, 2, 12), 1800),
    ("HF-50031", "Rugged Tab 3", "Rugged tablet", "In service", 3, "isla.grant", 1, date(2024, 7, 9), 4300),
    ("HF-50032", "Rugged Tab 3", "Rugged tablet", "Racked", 3, None, 1, date(2024, 7, 9), 4300),
    ("HF-60014", "Baltic R5", "Radio", "In service", 3, "callum.reid", 3, date(2020, 10, 5), 300),
    ("HF-70001", "Fjord 14", "Loan pool laptop", "Racked", 0, None, 1, date(2023, 1, 16), 2900),
    ("HF-70002", "Fjord 14", "Loan pool laptop", "On loan", 1, "mads.holm", 1, date(2023, 1, 16), 2900),
    ("HF-70003", "Fjord 14", "Loan pool laptop", "On loan", 2, "ewa.nowak", 1, date(2023, 1, 16), 2900),
    ("HF-70004", "Fjord 14", "Loan pool laptop", "Racked", 3, None, 1, date(2023, 1, 16), 2900),
    ("HF-20099", "Fjord 13", "Laptop", "Scrapped", 1, None, 1, date(2019, 4, 2), 0),
]

LOANS = [
    ("HF-70002", "mads.holm", date(2026, 3, 6), "Customs audit"),
    ("HF-70003", "ewa.nowak", date(2026, 3, 12), "Own machine in repair"),
]
ORDERS = [
    ("Fjord 14 laptop", "16 GB, Quay dock, Slate", 13_190, "Kari Moe", 0, "CC-4410-NO", ""),
    ("Harbour headset", "USB-C, Both", 1_100, "Mads Holm", 1, "CC-4520-DK", ""),
    ("Rugged Tab 3", "Cab cradle, Nordic", 8_729, "Isla Grant", 3, "CC-5120-UK", ""),
    ("Fjord 16 laptop", "32 GB, Planner card, Quay dock", 17_940, "Piotr Zielinski", 2, "CC-6033-PL", "Solveig Lund"),
    ("Harbour headset", "Jack, Left", 890, "Ewa Nowak", 2, "CC-6033-PL", ""),
    ("Rugged Tab 3", "Hand strap, Baltic", 7_919, "Ewa Nowak", 2, "CC-6033-PL", ""),
]


def main() -> None:
    """Seed everything; the database is empty but migrated."""
    random.seed(2026)  # the stock models draw secret keys
    call_command("migrate", run_syncdb=True, verbosity=0)  # the ledger's tables have no migrations
    # the stock views build absolute addresses from the site
    Site.objects.update_or_create(pk=1, defaults={"domain": "127.0.0.1:8103", "name": "Halden Desk"})
    people = _people()
    lanes = {
        slug: Queue.objects.create(title=title, slug=slug, allow_public_submission=True)
        for slug, title in LANES.items()
    }
    lanes["ACCESS"].default_owner = people["ingrid"]
    lanes["ACCESS"].save()
    fields = _particulars()
    for number, case in enumerate(CASES, start=FIRST_CASE):
        _case(number, case, lanes, people, fields)
    _playbook()
    _lenses(people, lanes)
    _ledger(people)


def _people() -> dict[str, User]:
    agents = Group.objects.create(name="Desk agents")
    agents.permissions.set(
        Permission.objects.filter(content_type__app_label="desk").exclude(codename__startswith="delete")
        | Permission.objects.filter(codename__in=["view_user", "change_user"])
    )
    people = {"solveig": User.objects.create_superuser("solveig", "solveig@halden.example", PASSWORD)}
    people["solveig"].first_name, people["solveig"].last_name = "Solveig", "Lund"
    people["solveig"].save()
    for username, name in AGENTS.items():
        first, last = name.split()
        people[username] = User.objects.create_user(
            username, f"{username}@halden.example", PASSWORD, is_staff=True, first_name=first, last_name=last
        )
        people[username].groups.add(agents)
    for username in EMPLOYEES:
        first, last = username.title().split(".")
        people[username] = User.objects.create_user(
            username, f"{username}@halden.example", PASSWORD, first_name=first, last_name=last
        )
    return people


def _particulars() -> dict[str, CustomField]:
    fields = {}
    for order, (name, label, kind, choices, staff_only) in enumerate(PARTICULARS):
        fields[name] = CustomField.objects.create(
            name=name,
            label=label,
            data_type=kind,
            list_values="\n".join(choices) if choices else None,
            empty_selection_list=kind == "list",
            max_length=40 if kind == "varchar" else None,
            ordering=order,
            staff_only=staff_only,
            required=False,
        )
    return fields


def _case(
    number: int, case: Case, lanes: dict[str, Queue], people: dict[str, User], fields: dict[str, CustomField]
) -> None:
    logged = TODAY - timedelta(days=case.age, minutes=7 * (number - FIRST_CASE))
    ticket = Ticket.objects.create(
        id=number,
        title=case.headline,
        queue=lanes[case.lane],
        submitter_email=f"{case.caller}@halden.example",
        description=case.text,
        priority=case.urgency,
        status=case.stage,
        assigned_to=people[case.handler] if case.handler else None,
        resolution=case.journal[-1] if case.journal and case.stage in (3, 4) else None,
    )
    Ticket.objects.filter(pk=number).update(created=logged, modified=logged)  # saving stamps both with the clock
    for name, value in case.particulars.items():
        TicketCustomFieldValue.objects.create(ticket=ticket, field=fields[name], value=value)
    for step, entry in enumerate(case.journal, start=1):
        FollowUp.objects.create(
            ticket=ticket,
            title="Worklog entry",
            comment=entry,
            date=logged + timedelta(hours=5 * step),
            public=True,
            user=people[case.handler or "jonas"],
        )
    if case.runbook:
        name, tasks = case.runbook
        checklist = Checklist.objects.create(ticket=ticket, name=name)
        for position, (task, done) in enumerate(tasks, start=1):
            ChecklistTask.objects.create(
                checklist=checklist, description=task, position=position, completion_date=logged if done else None
            )


def _playbook() -> None:
    for title, (summary, pages) in CHAPTERS.items():
        slug = title.lower().replace(" ", "-")
        chapter = KBCategory.objects.create(name=title, title=title, slug=slug, description=summary, public=True)
        for order, (page, text) in enumerate(pages):
            KBItem.objects.create(category=chapter, title=page, question=page, answer=text, order=order, enabled=True)
    PreSetReply.objects.create(
        name="Tunnel: import profile", body="Please remove the profile Halden-Quay and import it again."
    )
    PreSetReply.objects.create(name="Scanner: pair again", body="Hold the trigger and the left key for 8 seconds.")


def _lenses(people: dict[str, User], lanes: dict[str, Queue]) -> None:
    def lens(title: str, filtering: dict[str, object], null: dict[str, object]) -> None:
        query = {
            "filtering": filtering,
            "filtering_null": null,
            "sorting": "created",
            "sortreverse": False,
            "search_string": "",
        }
        SavedSearch.objects.create(user=people["solveig"], title=title, shared=True, query=query_to_base64(query))

    dock = [lanes["DOCK"].pk]
    lens("Drifting at the docks", {"queue__id__in": dock, "status__in": [1, 2]}, {"assigned_to__id__isnull": True})
    lens("Vendor shelf", {"status__in": [6]}, {})
    lens("Harbourmaster's morning", {"priority__in": [1, 2], "status__in": [1, 2]}, {})


def _ledger(people: dict[str, User]) -> None:
    suppliers = [
        Supplier.objects.create(name=name, trade=trade, contract=contract, hotline=hotline, notice_days=days)
        for name, trade, contract, hotline, days in SUPPLIERS
    ]
    assets = {}
    for tag, model, kind, state, berth, custodian, supplier, bought, price in ASSETS:
        assets[tag] = Asset.objects.create(
            tag=tag,
            model=model,
            kind=kind,
            state=state,
            site=SITES[berth],
            custodian=people[custodian] if custodian else None,
            supplier=suppliers[supplier],
            bought=bought,
            cover_until=bought.replace(year=bought.year + 3),
            price=price,
            wipe_certificate="WC-0397" if state == "Scrapped" else "",
        )
    for tag, borrower, due_back, purpose in LOANS:
        LoanSlip.objects.create(asset=assets[tag], borrower=people[borrower], due_back=due_back, purpose=purpose)
    for item, options, total, receiver, berth, cost_centre, approver in ORDERS:
        SupplyOrder.objects.create(
            item=item,
            options=options,
            total=total,
            receiver=receiver,
            berth=SITES[berth],
            cost_centre=cost_centre,
            approver=approver,
        )


if __name__ == "__main__":
    main()
