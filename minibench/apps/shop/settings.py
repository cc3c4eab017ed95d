"""Settings of the shop (django-oscar)."""

from __future__ import annotations

import os
from pathlib import Path

import oscar.defaults

from minibench.apps.shop import navigation
from minibench.clock import freeze_clock

freeze_clock()
globals().update({name: value for name, value in vars(oscar.defaults).items() if name.isupper()})

BASE = Path(os.environ["MINIBENCH_DATA"])
SECRET_KEY = "minibench"
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "minibench.apps.shop.urls"
SITE_ID = 1
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LOCALE_PATHS = [str(BASE / "locale")]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
STATIC_URL = "/static/"
MEDIA_URL = "/media/"
MEDIA_ROOT = str(BASE / "media")
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(BASE / "shop.sqlite3"),
        "ATOMIC_REQUESTS": True,
    }
}
_DASHBOARDS = {
    "reports": "Reports",
    "users": "Users",
    "orders": "Orders",
    "catalogue": "Catalogue",
    "offers": "Offers",
    "partners": "Partners",
    "pages": "Pages",
    "ranges": "Ranges",
    "reviews": "Reviews",
    "vouchers": "Vouchers",
    "communications": "Communications",
    "shipping": "Shipping",
}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.sites",
    "django.contrib.flatpages",
    "oscar.config.Shop",
    "oscar.apps.analytics.apps.AnalyticsConfig",
    "oscar.apps.checkout.apps.CheckoutConfig",
    "oscar.apps.address.apps.AddressConfig",
    "oscar.apps.shipping.apps.ShippingConfig",
    "oscar.apps.catalogue.apps.CatalogueConfig",
    "oscar.apps.catalogue.reviews.apps.CatalogueReviewsConfig",
    "oscar.apps.communication.apps.CommunicationConfig",
    "oscar.apps.partner.apps.PartnerConfig",
    "oscar.apps.basket.apps.BasketConfig",
    "oscar.apps.payment.apps.PaymentConfig",
    "oscar.apps.offer.apps.OfferConfig",
    "oscar.apps.order.apps.OrderConfig",
    "oscar.apps.customer.apps.CustomerConfig",
    "oscar.apps.search.apps.SearchConfig",
    "oscar.apps.voucher.apps.VoucherConfig",
    "oscar.apps.wishlists.apps.WishlistsConfig",
    "oscar.apps.dashboard.apps.DashboardConfig",
    *(f"oscar.apps.dashboard.{module}.apps.{name}DashboardConfig" for module, name in _DASHBOARDS.items()),
    "widget_tweaks",
    "haystack",
    "treebeard",
    "sorl.thumbnail",
    "django_tables2",
    "minibench.apps.shop.apps.ShopConfig",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "oscar.apps.basket.middleware.BasketMiddleware",
    "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [str(Path(__file__).parent / "templates")],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.debug",
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.media",
                "django.template.context_processors.static",
                "oscar.apps.search.context_processors.search_form",
                "oscar.apps.checkout.context_processors.checkout",
                "oscar.apps.communication.notifications.context_processors.notifications",
                "oscar.core.context_processors.metadata",
            ]
        },
    }
]
AUTHENTICATION_BACKENDS = (
    "oscar.apps.customer.auth_backends.EmailBackend",
    "django.contrib.auth.backends.ModelBackend",
)
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
HAYSTACK_CONNECTIONS = {
    "default": {
        "ENGINE": "haystack.backends.whoosh_backend.WhooshEngine",
        "PATH": str(BASE / "whoosh"),
    }
}
_INDEXING = "BaseSignalProcessor" if "MINIBENCH_SEEDING" in os.environ else "RealtimeSignalProcessor"
HAYSTACK_SIGNAL_PROCESSOR = f"haystack.signals.{_INDEXING}"

OSCAR_SEARCH_FACETS = {"fields": {}, "queries": {}}  # Whoosh would offer stemmed words as facets
OSCAR_SHOP_NAME = "Fennimore Trading"
OSCAR_SHOP_TAGLINE = "Field & galley"
OSCAR_DEFAULT_CURRENCY = "USD"
OSCAR_ALLOW_ANON_CHECKOUT = False
OSCAR_PRODUCTS_PER_PAGE = 12
OSCAR_RECENTLY_VIEWED_PRODUCTS = 4
OSCAR_MAX_BASKET_QUANTITY_THRESHOLD = 9
OSCAR_MODERATE_REVIEWS = True
OSCAR_DASHBOARD_ITEMS_PER_PAGE = 12
OSCAR_INITIAL_ORDER_STATUS = "Awaiting pick"
OSCAR_INITIAL_LINE_STATUS = "Awaiting pick"
OSCAR_ORDER_STATUS_PIPELINE = {
    "Awaiting pick": ("Picked", "On hold", "Voided"),
    "Picked": ("Handed to carrier", "On hold"),
    "On hold": ("Awaiting pick", "Voided"),
    "Handed to carrier": ("Closed",),
    "Closed": (),
    "Voided": (),
}
OSCAR_LINE_STATUS_PIPELINE = {
    "Awaiting pick": ("Picked", "Short"),
    "Picked": (),
    "Short": ("Picked",),
}
OSCAR_DASHBOARD_NAVIGATION = navigation.DASHBOARD
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"django.request": {"handlers": ["console"], "level": "ERROR"}},
}
