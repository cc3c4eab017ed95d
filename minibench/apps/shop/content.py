"""Fills the freshly migrated shop with fixed content. Import it after ``django.setup()``; see ``seed``."""

from __future__ import annotations

import io
import random
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.flatpages.models import FlatPage
from django.contrib.sites.models import Site
from django.core.files.base import ContentFile
from django.core.management import call_command
from oscar.apps.address.models import Country, UserAddress
from oscar.apps.basket.models import Basket
from oscar.apps.catalogue.categories import create_from_breadcrumbs
from oscar.apps.catalogue.models import (
    AttributeOption,
    AttributeOptionGroup,
    Product,
    ProductAttribute,
    ProductClass,
    ProductImage,
)
from oscar.apps.catalogue.reviews.models import ProductReview
from oscar.apps.checkout.calculators import OrderTotalCalculator
from oscar.apps.offer.models import Benefit, Condition, ConditionalOffer, Range
from oscar.apps.order.models import Order, OrderNote, ShippingAddress
from oscar.apps.order.utils import OrderCreator
from oscar.apps.partner.models import Partner, StockAlert, StockRecord
from oscar.apps.partner.strategy import Selector
from oscar.apps.payment.models import Source, SourceType
from oscar.apps.voucher.models import Voucher
from PIL import Image, ImageDraw

from minibench.apps.shop import labels, packing, stock
from minibench.clock import TODAY

PASSWORD = "pass12345"
RANDOM = random.Random(7)
ROUTES = (
    (),
    (),
    ("Picked",),
    ("Picked", "Handed to carrier"),
    ("Picked", "Handed to carrier", "Closed"),
    ("On hold",),
    ("Picked", "On hold", "Voided"),
)
COLOURS = {"LN": "#d9902f", "TP": "#4f7f5b", "MG": "#b5533c", "KT": "#5a6f86", "KN": "#6b5d52", "ST": "#8a6a3d"}


def make_people() -> dict[str, User]:
    """Staff account "staff" and the patrons, each with one delivery point."""
    Site.objects.update_or_create(pk=1, defaults={"domain": "127.0.0.1:8101", "name": "Fennimore Trading"})
    for code, long_code, number, name in (("US", "USA", "840", "United States"), ("CA", "CAN", "124", "Canada")):
        Country.objects.create(
            iso_3166_1_a2=code,
            iso_3166_1_a3=long_code,
            iso_3166_1_numeric=number,
            name=name,
            printable_name=name,
            is_shipping_country=True,
        )
    User.objects.create_superuser("staff", "staff@fennimore.example", PASSWORD, first_name="Nora", last_name="Keeper")
    people = {}
    for name, first, last, line, city, postcode, state in stock.PATRONS:
        user = User.objects.create_user(name, f"{name}@mail.example", PASSWORD, first_name=first, last_name=last)
        User.objects.filter(pk=user.pk).update(date_joined=TODAY - timedelta(days=RANDOM.randint(90, 600)))
        UserAddress.objects.create(
            user=user,
            first_name=first,
            last_name=last,
            line1=line,
            line4=city,
            postcode=postcode,
            state=state,
            country_id="US",
            notes="Ring at the side gate." if name == "emma" else "",
        )
        people[name] = user
    return people


def draw_plate(goods: stock.Goods) -> bytes:
    """A simple picture of an article: coloured ground, a shape for its kind, the shelf code."""
    image = Image.new("RGB", (300, 300), "#efe9dc")
    pen = ImageDraw.Draw(image)
    kind, colour = goods.code[:2], COLOURS[goods.code[:2]]
    if kind in ("LN", "MG", "KT"):
        pen.rounded_rectangle((90, 80, 210, 240), 24, fill=colour)
        pen.arc((60, 40, 240, 160), 180, 360, fill="#3a3a3a", width=8)
    elif kind == "TP":
        pen.polygon(((40, 230), (150, 70), (260, 230)), fill=colour)
    elif kind == "KN":
        pen.polygon(((60, 220), (210, 60), (240, 80), (100, 240)), fill=colour)
    else:
        pen.rounded_rectangle((60, 120, 240, 240), 18, fill=colour)
        pen.arc((100, 60, 200, 180), 180, 360, fill="#3a3a3a", width=10)
    pen.text((12, 12), goods.code, fill="#3a3a3a")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def make_goods() -> dict[str, Product]:
    """Aisles, the goods template with its traits, and every article with plate and shelf record."""
    template = ProductClass.objects.create(name="House goods", track_stock=True)
    grades = AttributeOptionGroup.objects.create(name="Care grades")
    options = {name: AttributeOption.objects.create(group=grades, option=name) for name in stock.CARE_GRADES}
    traits: tuple[dict[str, Any], ...] = (
        {"code": "care", "name": "Care grade", "type": "option", "option_group": grades, "required": True},
        {"code": "packed", "name": "Packed weight (g)", "type": "integer", "required": True},
        {"code": "mark", "name": "Maker's mark", "type": "text"},
    )
    for trait in traits:
        ProductAttribute.objects.create(product_class=template, **trait)
    depots = {name: Partner.objects.create(name=name) for name in stock.DEPOTS}
    aisles = {path: create_from_breadcrumbs(path) for path in stock.AISLES}
    made = {}
    for number, goods in enumerate(stock.GOODS):
        product = Product(
            title=goods.title, upc=goods.code, product_class=template, description=f"<p>{goods.notes}</p>"
        )
        product.attr.care, product.attr.packed = options[goods.care], goods.grams
        product.attr.mark = f"{goods.title.split()[0][0]}{number + 11}"
        product.save()
        product.categories.add(aisles[goods.aisle])
        record = StockRecord.objects.create(
            product=product,
            partner=depots[goods.depot],
            partner_sku=f"{goods.depot[0]}Q-{1200 + 7 * number}",
            price=Decimal(goods.price),
            price_currency="USD",
            num_in_stock=goods.stock,
            low_stock_threshold=5,
        )
        if goods.stock < 5:
            StockAlert.objects.create(stockrecord=record, threshold=5)
        plate = ContentFile(draw_plate(goods), name=f"{goods.code}.png")
        ProductImage.objects.create(product=product, original=plate, caption=goods.title)
        made[goods.code] = product
    return made


def make_orders(people: dict[str, User], goods: dict[str, Product]) -> None:
    """Twenty-four ledger entries of the last two months, settled and moved along the stations."""
    order = 0
    while order < 24:
        user = RANDOM.choice(list(people.values()))
        basket = Basket.objects.create(owner=user)
        basket.strategy = Selector().strategy(user=user)
        for product in RANDOM.sample(list(goods.values()), RANDOM.randint(1, 3)):
            if basket.get_stock_info(product, None).availability.is_available_to_buy:
                basket.add_product(product, RANDOM.choice((1, 1, 2)))
        if basket.is_empty or basket.total_incl_tax < packing.SMALLEST_SATCHEL:
            basket.delete()
            continue
        place_order(user, basket, number=100140 + order, age=timedelta(days=62 - 2.5 * order))
        order += 1


def place_order(user: User, basket: Basket, number: int, age: timedelta) -> None:
    """Put one basket through Oscar's own order creator, then date, settle and move it."""
    home = user.addresses.first()
    address = ShippingAddress()
    home.populate_alternative_model(address)
    address.save()
    carrier = packing.CARRIERS[RANDOM.randrange(2)]
    charge = carrier.calculate(basket)
    total = OrderTotalCalculator().calculate(basket, charge)
    order = OrderCreator().place_order(
        basket=basket,
        total=total,
        shipping_method=carrier,
        shipping_charge=charge,
        user=user,
        shipping_address=address,
        order_number=str(number),
    )
    basket.submit()
    settlement = RANDOM.choice(packing.SETTLEMENTS)
    kind, _ = SourceType.objects.get_or_create(name=settlement)
    slip = f"HA-{RANDOM.randint(1000, 9999)}" if settlement == "House account" else ""
    Source.objects.create(
        order=order, source_type=kind, currency="USD", amount_allocated=total.incl_tax, reference=slip
    )
    for hours, station in enumerate(RANDOM.choice(ROUTES), 1):
        if station == "Voided":
            OrderNote.objects.create(order=order, note_type="Void reason", message="Patron changed their mind.")
        order.set_status(station)
        order.status_changes.filter(new_status=station).update(date_created=TODAY - age + timedelta(hours=20 * hours))
    order.notes.update(date_created=TODAY - age + timedelta(hours=30))
    Order.objects.filter(pk=order.pk).update(date_placed=TODAY - age)  # last: a new station saves the order again


def make_markdowns() -> None:
    """Two markdown rules for promo slips, one running slip and one that ran out."""
    everything = Range.objects.create(name="Whole house", includes_all_products=True)
    for name, code, share, least, days in (
        ("Thaw tenth", "THAW-26", 10, 80, (-20, 40)),
        ("Frost fifteenth", "FROST-26", 15, 60, (-90, -30)),
    ):
        offer = ConditionalOffer.objects.create(
            name=name,
            offer_type=ConditionalOffer.VOUCHER,
            condition=Condition.objects.create(range=everything, type=Condition.VALUE, value=least),
            benefit=Benefit.objects.create(range=everything, type=Benefit.PERCENTAGE, value=share),
        )
        slip = Voucher.objects.create(
            name=f"{name} slip",
            code=code,
            usage=Voucher.MULTI_USE,
            start_datetime=TODAY + timedelta(days=days[0]),
            end_datetime=TODAY + timedelta(days=days[1]),
        )
        slip.offers.add(offer)


def fill() -> None:
    """Seed everything and build the search index."""
    labels.compile_labels(Path(settings.LOCALE_PATHS[0]))
    people = make_people()
    goods = make_goods()
    make_orders(people, goods)
    make_markdowns()
    for code, patron, score, title, body, status in stock.REMARKS:
        ProductReview.objects.create(
            product=goods[code], user=people[patron], score=score, title=title, body=body, status=status
        )
    ProductReview.objects.update(date_created=TODAY - timedelta(days=9))
    page = FlatPage.objects.create(
        url="/packing-hours/",
        title="Packing hours",
        content="<p>Gull Quay packs until 15:00, North Loft until 13:30, Mill Lane not on Fridays.</p>",
    )
    page.sites.add(Site.objects.get(pk=1))
    call_command("update_index", verbosity=0)
