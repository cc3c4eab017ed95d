"""Settings of the service desk (django-helpdesk and Django's admin as the asset ledger)."""

import os
from pathlib import Path

from minibench.clock import freeze_clock

freeze_clock()

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ["MINIBENCH_DATA"])

SECRET_KEY = "recordings-on-loopback-only"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "minibench.apps.desk.urls"
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
SITE_ID = 1
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(DATA / "desk.sqlite3")}}

INSTALLED_APPS = [
    "minibench.apps.desk.apps.DeskConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.sites",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.admin",
    "rest_framework",
    "helpdesk",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [str(HERE / "templates")],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.debug",
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "minibench.apps.desk.context.frozen_clock",
            ]
        },
    }
]
STATIC_URL = "/static/"
STATICFILES_DIRS = [str(HERE / "static")]
MEDIA_URL = "/media/"
MEDIA_ROOT = str(DATA / "media")
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/dashboard/"

# Teams are plain groups, so that the package for teams is not needed
HELPDESK_TEAMS_MODEL = "auth.Group"
HELPDESK_TEAMS_MIGRATION_DEPENDENCIES = [("auth", "0001_initial")]
HELPDESK_KBITEM_TEAM_GETTER = lambda _: None  # noqa: E731

HELPDESK_NAVIGATION_ENABLED = True
HELPDESK_TICKETS_TIMELINE_ENABLED = False
HELPDESK_KANBAN_ENABLED = False
HELPDESK_ENABLE_ATTACHMENTS = False
HELPDESK_ENABLE_BACKLINKS = False
HELPDESK_SHOW_EDIT_BUTTON_FOLLOW_UP = False
HELPDESK_STAFF_ONLY_TICKET_OWNERS = True
HELPDESK_DEFAULT_SETTINGS = {
    "login_view_ticketlist": False,
    "tickets_per_page": 10,
    "use_email_as_submitter": False,
}
HELPDESK_SHOW_CUSTOM_FIELDS_FOLLOW_UP_LIST = ["vendor_ref", "change_window"]

LOGGED, BACK_IN_WORK, FIX_DELIVERED, SEALED, TWIN, AWAITING_VENDOR = 1, 2, 3, 4, 5, 6
HELPDESK_TICKET_STATUS_CHOICES = (
    (LOGGED, "Logged"),
    (BACK_IN_WORK, "Back in work"),
    (AWAITING_VENDOR, "Awaiting vendor"),
    (FIX_DELIVERED, "Fix delivered"),
    (TWIN, "Twin"),
    (SEALED, "Sealed"),
)
HELPDESK_TICKET_OPEN_STATUSES = (LOGGED, BACK_IN_WORK, AWAITING_VENDOR)
HELPDESK_TICKET_STATUS_CHOICES_FLOW = {
    LOGGED: (LOGGED, AWAITING_VENDOR, FIX_DELIVERED, TWIN),
    BACK_IN_WORK: (BACK_IN_WORK, AWAITING_VENDOR, FIX_DELIVERED),
    AWAITING_VENDOR: (AWAITING_VENDOR, BACK_IN_WORK),
    FIX_DELIVERED: (FIX_DELIVERED, BACK_IN_WORK, SEALED),
    TWIN: (TWIN, BACK_IN_WORK),
    SEALED: (SEALED, BACK_IN_WORK),
}
HELPDESK_TICKET_PRIORITY_CHOICES = (
    (1, "P1 - Freight stopped"),
    (2, "P2 - Site degraded"),
    (3, "P3 - One desk"),
    (4, "P4 - Cosmetic"),
    (5, "P5 - Wish list"),
)
