"""The service desk's scenarios: logging and working cases, finding them, and the ledgers around them."""

from minibench.policies.desk_admin import ADMIN_SCENARIOS
from minibench.policies.desk_cases import CASE_SCENARIOS
from minibench.policies.desk_register import REGISTER_SCENARIOS
from minibench.scenario import Login, Scenario

PASSWORD = "harbour-light-7"

LOGINS = {"tuva": Login("/login/", {"[name=username]": "tuva", "[name=password]": PASSWORD}, "[type=submit]")}
SCENARIOS: list[Scenario] = [*CASE_SCENARIOS, *REGISTER_SCENARIOS, *ADMIN_SCENARIOS]
SMALL = ["desk-03", "desk-05", "desk-06", "desk-09", "desk-12", "desk-14", "desk-15", "desk-18"]
