"""Made-up goals that spell out their routes, as the benchmark's enterprise tasks do, and what must become of them."""

from __future__ import annotations

STEPS = "\n \n Concretely, you need to complete the following steps:\n"
CLOSING = (
    'Don\'t forget to mark this task as "Closed - complete" once successfully completed. '
    'If the task appears infeasible, mark the task as "Closed - skipped" .'
)

ORDER = (
    f"Order a trail camera from the service catalog{STEPS}"
    '1. Navigate to the "Service Catalog" module of the "Self-Service" application.\n'
    "2. Go to the camera store and order 3 \"Trail Cam 9\"\" with configuration {'Choose the lens': 'Wide', 'Strap': True}"
)
CLEAN_UP = (
    f"Clean-up your duplicate problems{STEPS}"
    '1. Navigate to the "Assigned to me" module of the "Problem" application.\n'
    "2. Create a filter for the list to extract all entries where:\n"
    '    - "Short description" contains "#SERIES-77aa01bc-4"\n'
    "3. Mark problems with duplicated problem statements as such."
)
SORT = (
    "Please complete the following task.\n\nSort the asset list.\nSort the asset list based on specific criteria. \n"
    '- Navigate to the "Portfolios > All Assets" module of the "Asset" application.\n'
    f'Sort the "assets" list by the following fields:\n - Lease end (descending)\n\n{CLOSING}'
)
PROTOCOL = (
    "Please complete the following task.\n\nScheduling the lifts\n"
    'Referring to company protocol "Scheduling Lifts" (located in the "Yard Protocols" knowledge base) create a schedule '
    "for the lifts with hashtag #SERIES-0f0f0f0f-1, between 2031-02-03 04:05:06 and 2031-02-09 04:05:06, inclusively. "
    f"{CLOSING}"
)
CHART = (
    "Retrieve information from the chart with the title #CAT400500600 and perform the mentioned task.\n\n\n"
    "1. Navigate to the Reports > View/Run page.\n\n"
    "2. Given the title of the report, search for it on this page. The report shows the number of 'crates' per 'yard'.\n\n"
    "3. Find the value which is the median of the crates.\n\n"
    "4. Navigate to Self-Service  > Service Catalog. \n\n"
    "5. You have to create new 'crate requests' from this page: Item: Oak Crate, Quantity: 2.\n"
)
LOOK_UP = (
    "Find the lease end for Runa-Lill Berg-Holm's van. Navigate to Portfolios > Vans, filter where “Driver” is "
    "Runa-Lill Berg-Holm, and extract the “Lease end” field."
)
FILTER = (
    f"Filter the van list.{STEPS}"
    '1. Navigate to the "Vans" module of the "Fleet" application.\n'
    '2. Create a filter for the list to extract all entries where:\n    - "Model" is "" and \n    - "Yard" is "North"'
)

# The goal, its rewriting, and the routes removed.
REWRITTEN: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "order": (
        ORDER,
        "Order a trail camera\n\nOrder 3 \"Trail Cam 9\"\" with configuration {'Choose the lens': 'Wide', 'Strap': True}",
        ('the "Service Catalog" module of the "Self-Service" application',),
    ),
    "clean_up": (
        CLEAN_UP,
        "Clean-up your duplicate problems\n\nReview only the entries assigned to you where:\n"
        '    - "Short description" contains "#SERIES-77aa01bc-4"\n'
        "Mark problems with duplicated problem statements as such.",
        ('the "Assigned to me" module of the "Problem" application',),
    ),
    "sort": (
        SORT,
        "Please complete the following task.\n\nSort the asset list.\nSort the asset list based on specific criteria.\n"
        f'Sort the "assets" list by the following fields:\n - Lease end (descending)\n\n{CLOSING}',
        ('the "Portfolios > All Assets" module of the "Asset" application',),
    ),
    "protocol": (
        PROTOCOL,
        PROTOCOL.replace(' (located in the "Yard Protocols" knowledge base)', ""),
        ('located in the "Yard Protocols" knowledge base',),
    ),
    "chart": (
        CHART,
        "Retrieve information from the chart with the title #CAT400500600 and perform the mentioned task.\n\n"
        "The report shows the number of 'crates' per 'yard'.\n\nFind the value which is the median of the crates.\n\n"
        "You have to create new 'crate requests': Item: Oak Crate, Quantity: 2.",
        ("the Reports > View/Run page", "Self-Service  > Service Catalog"),
    ),
    "look_up": (
        LOOK_UP,
        "Find the lease end for Runa-Lill Berg-Holm's van. Review the entries where “Driver” is Runa-Lill Berg-Holm, and "
        "extract the “Lease end” field.",
        ("Portfolios > Vans",),
    ),
    "filter": (
        FILTER,
        "Filter the van list.\n\nCreate a filter for the list to extract all entries where:\n"
        '    - "Model" is "" and\n    - "Yard" is "North"',
        ('the "Vans" module of the "Fleet" application',),
    ),
    "clauses": (
        "Order the same as Ada. Navigate to the “Requested Items” module of “Self-Service”, filter by “Requested for”, "
        "then navigate to the “Service Catalog” module and order the item.",
        "Order the same as Ada. Filter by “Requested for”, then order the item.",
        ("the “Requested Items” module of “Self-Service”", "the “Service Catalog” module"),
    ),
    "search": (
        "Read chart #C-1. Navigate to Reports > View/Run, search for the report, then navigate to Self-Service > "
        "Service Catalog and order the scarcest item.",
        "Read chart #C-1. Order the scarcest item.",
        ("Reports > View/Run", "Self-Service > Service Catalog"),
    ),
    "dashes": (
        "Filter the asset list - in Asset > All Assets - based on “Yard”.",
        "Filter the asset list based on “Yard”.",
        ("in Asset > All Assets",),
    ),
    "head": (
        "Under System Security > Users and Groups, set the role of Ada Lund to “buyer”.",
        "Set the role of Ada Lund to “buyer”.",
        ("Under System Security > Users and Groups",),
    ),
    "list": (
        "Find what it is from the “Requested Items” list and order it.",
        "Find what it is and order it.",
        ("from the “Requested Items” list",),
    ),
    "words": (
        "Restock #A1\n1. Navigate to the stock reports and look for the report.\n2. Order what is scarce.",
        "Restock #A1\nLook for the report.\nOrder what is scarce.",
        ("the stock reports",),
    ),
    "which_list": (
        "Use field Driver\n1. Navigate to Portfolios > All Vans.\n2. Using the field Driver, filter the list.",
        "Use field Driver\nUsing the field Driver, filter the list of vans.",
        ("Portfolios > All Vans",),
    ),
    "only_route": (
        'Navigate to the "Yards > Gates" module of the "Harbour" application.',
        'Open the page "Gates".',
        ('the "Yards > Gates" module of the "Harbour" application',),
    ),
    "points_back": (
        "Mend the lift.\nNavigate to Work Orders > WO0010023, then close it and tell Ada Lund.",
        "Mend the lift.\nClose WO0010023 and tell Ada Lund.",
        ("Work Orders > WO0010023",),
    ),
    "inline": (
        'Clean up the drivers of #A1. 1. Navigate to the "Drivers" module of "Fleet". 2. Find the driver. 3. Delete him.',
        "Clean up the drivers of #A1. Find the driver. Delete him.",
        ('the "Drivers" module of "Fleet"',),
    ),
    "which_lies": (
        "Buy 7 of VAN1000, which costs $1,200.50 and is located in Fleet > All Vans. Then retire VAN1001.",
        "Buy 7 of VAN1000, which costs $1,200.50. Then retire VAN1001.",
        ("and is located in Fleet > All Vans",),
    ),
}

# Goals of level 1 and of other sources: nothing in them is a route.
UNCHANGED = (
    "Go to the hardware store and order 4 \"Trail Cam\" with configuration {'Strap': False}",
    'Create a filter for the list to extract all entries where:\n    - "Owner" is "" and \n    - "State" is "In use"',
    'Sort the "vans" list by the following fields:\n - Lease end (descending)',
    'Create a new incident with a value of "Navigate to the Reports > View/Run page. It fails" for field "Summary".',
    'Navigate to a relevant article in the knowledge base by searching for: "Wifi" and open the article: "Online"',
    'What is the value of "Oak" in the "Crates by Yard" chart (in percent)?',
    "Go to the sale page, find the cheapest mug and open its reviews.",
    "Show rows where crates > 3 and Price > 5, and mail <Agent Name> > all of them.",
    "1. Buy a lamp.\n2. Buy a shade.",
    "Please complete the following task.",
    "Tell me the total cost of my latest order?",
    'Set "Instructions" to "1. Navigate to Yard > All\n2. Close it".',
    'Install the "Camera" application on "VAN-1".',
    "  An odd   goal \n\n\n with white space \n",
    "",
)
