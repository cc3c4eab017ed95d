"""The cases that the register starts with."""

from dataclasses import dataclass

FIRST_CASE = 2101


@dataclass(frozen=True)
class Case:
    """One seeded case; `age` is in days before the frozen clock, `particulars` are custom field values."""

    headline: str
    lane: str
    stage: int
    urgency: int
    handler: str | None
    caller: str
    age: int
    text: str
    particulars: dict[str, str]
    journal: tuple[str, ...] = ()
    runbook: tuple[str, tuple[tuple[str, bool], ...]] | None = None


def _at(berth: str, ring: str = "Ring 2 - Person", tag: str = "", **more: str) -> dict[str, str]:
    return {"berth": berth, "ring": ring, **({"asset_tag": tag} if tag else {}), **more}


CASES = (
    Case("Gate 3 scanner reads nothing", "DOCK", 1, 2, None, "callum.reid", 1,
         "The yard scanner at gate 3 shows a red line and beeps twice.",
         _at("Leith Depot", "Ring 1 - Team", "HF-30118")),
    Case("VPN drops when the train leaves Oslo", "DOCK", 1, 3, "tuva", "kari.moe", 3,
         "The tunnel closes after ten minutes and asks for the token again.", _at("Bergen Quay", tag="HF-20417")),
    Case("Crane planner screen flickers", "DOCK", 2, 3, "tuva", "bjorn.aas", 6,
         "Left screen flickers since the dock was replaced.", _at("Bergen Quay", tag="HF-20501"),
         ("Swapped the cable, flicker is back after an hour.",)),
    Case("Label printer in hall B prints blank", "DOCK", 1, 3, "jonas", "ewa.nowak", 2,
         "Blank labels since Friday evening, ribbon was changed.", _at("Gdynia Terminal", "Ring 1 - Team", "HF-40233")),
    Case("Shared mailbox for customs team", "ACCESS", 1, 4, "ingrid", "freja.lind", 4,
         "The customs team needs one mailbox for release papers.", _at("Aarhus Hub", "Ring 1 - Team")),
    Case("Access to stowage plans for Isla", "ACCESS", 2, 3, "ingrid", "isla.grant", 8,
         "Isla covers for the planner and needs read access.", _at("Leith Depot")),
    Case("New joiner: Nora Vik", "ACCESS", 2, 3, "tuva", "kari.moe", 5,
         "Nora starts on 9 March as yard clerk.", _at("Bergen Quay"),
         ("Account created, waiting for the badge.",),
         ("Joiner runbook", (("Create account", True), ("Add to berth group", True),
                             ("Hand over badge", False), ("Walk through the Playbook", False)))),
    Case("VPN token rejected after phone swap", "DOCK", 1, 3, None, "mads.holm", 2,
         "The tunnel says token unknown since the new phone.", _at("Aarhus Hub", tag="HF-20622")),
    Case("Replacement battery for radio 14", "EQUIP", 1, 4, None, "callum.reid", 7,
         "Battery holds two hours only.", _at("Leith Depot", tag="HF-60014", cost_centre="CC-5120-UK")),
    Case("Second screen for weighbridge", "EQUIP", 1, 4, "jonas", "piotr.zielinski", 9,
         "The weighbridge clerk needs a second screen.", _at("Gdynia Terminal", cost_centre="CC-6033-PL")),
    Case("Patch berth database servers", "CHANGE", 1, 3, None, "solveig", 10,
         "Monthly patches for bergdb1 and bergdb2.\nRollback: restore the snapshot.",
         _at("Bergen Quay", "Ring 1 - Team", change_window="Sun 05:00-09:00")),
    Case("Move gate cameras to new switch", "CHANGE", 2, 3, "jonas", "solveig", 12,
         "Recable 14 cameras.\nRollback: old switch stays mounted.",
         _at("Leith Depot", "Ring 1 - Team", change_window="Tue 04:00-06:00")),
    Case("Scanner cradle does not charge", "DOCK", 1, 4, None, "ewa.nowak", 3,
         "Cradle 7 in the charging wall stays dark.", _at("Gdynia Terminal", "Ring 1 - Team", "HF-30127")),
    Case("VPN slow from Gdynia guest network", "DOCK", 2, 4, "jonas", "piotr.zielinski", 11,
         "The tunnel works but files take minutes.", _at("Gdynia Terminal")),
    Case("Weighbridge software freezes", "DOCK", 3, 2, "tuva", "piotr.zielinski", 14,
         "Freezes at the third truck.", _at("Gdynia Terminal", "Ring 1 - Team"),
         ("Driver update from the scale maker installed, 20 trucks weighed without a freeze.",)),
    Case("Gate 3 scanner red line and beeping", "DOCK", 1, 3, "tuva", "isla.grant", 1,
         "Red line, two beeps, at gate 3. Same as Callum saw.", _at("Leith Depot", "Ring 1 - Team", "HF-30118")),
    Case("Telephone in customs office dead", "DOCK", 6, 3, None, "freja.lind", 13,
         "No dial tone.", _at("Aarhus Hub", vendor_ref="NT-88120")),
    Case("Bridge room Skagen has no sound", "DOCK", 4, 3, "jonas", "mads.holm", 30,
         "Speakers silent in calls.", _at("Aarhus Hub", "Ring 1 - Team"),
         ("Amplifier fuse replaced, test call fine.",)),
    Case("Yard radio channel 5 noisy", "DOCK", 4, 4, "tuva", "callum.reid", 33,
         "Hiss on channel 5.", _at("Leith Depot", "Ring 1 - Team"), ("Antenna plug tightened.",)),
    Case("Badge does not open server cage", "ACCESS", 1, 3, "ingrid", "mads.holm", 2,
         "Badge reader blinks orange.", _at("Aarhus Hub")),
    Case("Rugged tablet cracked in cab 9", "EQUIP", 1, 3, None, "isla.grant", 4,
         "Screen cracked, touch works at the left only.", _at("Leith Depot", tag="HF-50031", cost_centre="CC-5120-UK")),
    Case("Docking station for stowage desk", "EQUIP", 3, 4, "jonas", "kari.moe", 20,
         "Dock with two screens.", _at("Bergen Quay", cost_centre="CC-4410-NO"), ("Quay dock handed over.",)),
    Case("VPN client missing on loan laptop", "DOCK", 6, 3, None, "ewa.nowak", 9,
         "No tunnel icon on the loan laptop.", _at("Gdynia Terminal", tag="HF-70003", vendor_ref="SW-3107")),
    Case("Printer at bridge room jams", "DOCK", 5, 4, "jonas", "kari.moe", 16,
         "Jams with thick paper.", _at("Bergen Quay"), ("Same as #2104.",)),
    Case("Rotate certificates of the customs link", "CHANGE", 1, 2, None, "solveig", 3,
         "Certificates end on 31 March.\nRollback: keep the old pair.",
         _at("Aarhus Hub", "Ring 0 - Terminal", change_window="Sun 05:00-09:00")),
    Case("Handover lamp at crane 2 stays red", "DOCK", 1, 2, None, "bjorn.aas", 1,
         "Lamp is red although the lane is free.", _at("Bergen Quay", "Ring 1 - Team")),
    Case("Payroll terminal asks for update", "DOCK", 1, 4, "jonas", "freja.lind", 5,
         "Update window every morning.", _at("Aarhus Hub", tag="HF-20640")),
    Case("Leith yard map outdated", "DOCK", 1, 5, None, "callum.reid", 18,
         "Map shows the old lane 8.", _at("Leith Depot")),
    Case("Spare cradles for hall B", "EQUIP", 1, 4, None, "ewa.nowak", 2,
         "Two cradles that fit the scanner of the night shift.", _at("Gdynia Terminal", cost_centre="CC-6033-PL")),
)  # fmt: skip
