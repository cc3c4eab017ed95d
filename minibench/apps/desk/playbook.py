"""The Playbook: the desk's house rules, by chapter."""


def _steps(*steps: str) -> str:
    return "\n\n".join(f"Step {number}. {step}" for number, step in enumerate(steps, start=1))


CHAPTERS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "Dockside drills": ("What to do when something stands still at a berth.", (
        ("P1 drill", _steps("Log the case in Dockside Incidents with Ring 0.", "Call the Duty Harbourmaster on 4711.",
                            "Open bridge room Skagen.",
                            "Write a journal entry every 20 minutes until the berth moves.")),
        ("Scanner triage", "Red line and two beeps: the scanner lost its pairing. Hold the trigger and the left key "
                           "for 8 seconds. No lamp at all: swap the cradle fuse, type 2A slow."),
        ("Tunnel problems", "Search the register for the word tunnel; callers write it in every case of this kind. "
                            "First cure: remove the profile Halden-Quay and import it again from the Front Gate."),
    )),
    "Stages and sealing": ("How a case moves from Logged to Sealed.", (
        ("Which stage may follow", "Logged goes to Awaiting vendor, Fix delivered or Twin. Fix delivered goes to "
                                   "Sealed or Back in work. Awaiting vendor only goes to Back in work."),
        ("Waiting for a vendor", "Enter the vendor's reference before you move the case. The handler is dropped on "
                                 "purpose: pull the case again if you want to keep it on your worklist."),
        ("Sealed cases", "A sealed journal is locked. Move the case to Back in work and write in the same step."),
        ("Twins", "Keep the older case, mark the younger one as Twin and name the original as # and number."),
    )),
    "Equipment handbook": ("Who gets what, on loan or for good.", (
        ("Who gets which machine", "Office staff: Fjord 14. Crane and stowage planners: Fjord 16 with planner card. "
                                   "Drivers and yard crews: Rugged Tab 3."),
        ("Loans", "Loan pool laptops carry tags HF-70001 to HF-70009. A loan runs for 21 days at most. A longer need "
                  "is not a loan: order a machine at the Supply Counter."),
        ("Scrapping", _steps("Call Nordwipe and ask for a wipe.", "Enter the wipe certificate in the Asset Ledger.",
                             "Set the state to Scrapped.", "The ledger clears the custodian by itself.")),
        ("Cost centres", "Bergen Quay CC-4410-NO, Aarhus Hub CC-4520-DK, Gdynia Terminal CC-6033-PL, "
                         "Leith Depot CC-5120-UK."),
    )),
    "Joiners and leavers": ("The first and the last day.", (
        ("Leaver drill", _steps("Rack every asset the person holds.", "Hand over the person's open cases.",
                                "Untick Active in People.",
                                "Log an Access case with the headline Leaver: and the username.")),
        ("Joiner drill", _steps("Create the account.", "Add it to the berth group.", "Hand over the badge.",
                                "Walk through the Playbook.")),
    )),
    "Change calendar": ("When systems may be touched.", (
        ("Windows", "Tue 04:00-06:00, Thu 22:00-23:30 and Sun 05:00-09:00. Ring 0 systems change on Sundays only."),
        ("What a change needs", "A change window, a line that starts with Rollback: and a promised date. A desk lead "
                                "makes it firm by moving it to Back in work."),
    )),
}  # fmt: skip
