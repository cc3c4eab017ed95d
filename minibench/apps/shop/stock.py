"""What the shop sells, who buys there and what the depots hold: the fixed content of the seed."""

from __future__ import annotations

from typing import NamedTuple

DEPOTS = ("Gull Quay", "North Loft", "Mill Lane")
CARE_GRADES = ("Wipe down", "Hand wash", "Oil yearly", "Send to the workshop")
AISLES = (
    "Camp > Lanterns",
    "Camp > Tarps",
    "Galley > Mugs",
    "Galley > Kettles",
    "Deck > Knives",
    "Deck > Satchels",
)


class Goods(NamedTuple):
    """One article: shelf code, aisle, price in dollars, number on the shelf, depot, care grade, grams."""

    title: str
    code: str
    aisle: str
    price: str
    stock: int
    depot: str
    care: str
    grams: int
    notes: str


GOODS = (
    Goods("Ember Storm Lantern", "LN-207", "Camp > Lanterns", "48.00", 12, "Gull Quay", "Wipe down", 940,
          "Burns nineteen hours on one filling. The glass is held by a bayonet ring."),
    Goods("Tern Folding Lantern", "LN-212", "Camp > Lanterns", "31.50", 3, "North Loft", "Wipe down", 310,
          "Folds to the height of a tea tin. Candle or cell insert."),
    Goods("Pole Star Mast Lantern", "LN-230", "Camp > Lanterns", "92.00", 7, "Gull Quay", "Send to the workshop", 2150,
          "Fresnel glass, visible at two miles. Comes with a gimbal hook."),
    Goods("Hollow Oak Tent Lantern", "LN-219", "Camp > Lanterns", "22.75", 0, "Mill Lane", "Wipe down", 260,
          "Warm light only, with a felt bottom."),
    Goods("Juniper Ridge Tarp", "TP-104", "Camp > Tarps", "64.00", 9, "North Loft", "Hand wash", 1180,
          "Three by four metres, waxed cotton, nineteen loops."),
    Goods("Brackwater Rain Tarp", "TP-117", "Camp > Tarps", "57.25", 14, "Mill Lane", "Hand wash", 860,
          "Light cloth for wet coasts, taped seams."),
    Goods("Ember Hearth Tarp", "TP-121", "Camp > Tarps", "71.00", 2, "North Loft", "Send to the workshop", 1640,
          "Spark-proof panel over the fire side."),
    Goods("Tern Bivouac Tarp", "TP-126", "Camp > Tarps", "39.90", 25, "Gull Quay", "Hand wash", 540,
          "One sleeper, one pole, packs into its own pocket."),
    Goods("Hollow Oak Tin Mug", "MG-301", "Galley > Mugs", "9.50", 60, "Mill Lane", "Hand wash", 120,
          "Enamel over steel, chips are part of its life."),
    Goods("Juniper Double Mug", "MG-305", "Galley > Mugs", "16.25", 33, "Gull Quay", "Hand wash", 240,
          "Double wall, holds the heat for an hour."),
    Goods("Pole Star Watch Mug", "MG-309", "Galley > Mugs", "18.00", 11, "Gull Quay", "Hand wash", 280,
          "Wide foot that does not slide at thirty degrees of heel."),
    Goods("Brackwater Cup Pair", "MG-314", "Galley > Mugs", "21.00", 4, "North Loft", "Hand wash", 310,
          "Two nesting cups with a cork band."),
    Goods("Ember Quay Kettle", "KT-401", "Galley > Kettles", "44.00", 8, "Mill Lane", "Wipe down", 720,
          "Two litres, copper bottom, drip-free spout."),
    Goods("Tern Quick Kettle", "KT-406", "Galley > Kettles", "36.50", 19, "Gull Quay", "Wipe down", 410,
          "Boils a litre in four minutes on a camp burner."),
    Goods("Hollow Oak Fire Kettle", "KT-409", "Galley > Kettles", "53.00", 1, "North Loft", "Oil yearly", 1310,
          "Cast iron, bail handle, for the open fire."),
    Goods("Juniper Whistle Kettle", "KT-413", "Galley > Kettles", "28.80", 0, "Mill Lane", "Wipe down", 650,
          "Two-tone whistle, folding handle."),
    Goods("Brackwater Rigging Knife", "KN-502", "Deck > Knives", "34.00", 22, "Gull Quay", "Oil yearly", 180,
          "Sheepsfoot blade and a marlinspike on one pin."),
    Goods("Pole Star Cook's Knife", "KN-507", "Deck > Knives", "58.50", 6, "Mill Lane", "Oil yearly", 260,
          "Carbon steel, twenty centimetres, walnut scales."),
    Goods("Juniper Carving Knife", "KN-511", "Deck > Knives", "27.00", 15, "North Loft", "Oil yearly", 90,
          "Short blade for spoons and pegs."),
    Goods("Tern Oyster Knife", "KN-515", "Deck > Knives", "19.25", 30, "Gull Quay", "Wipe down", 110,
          "Guarded handle, blunt edge."),
    Goods("Ember Tool Satchel", "ST-601", "Deck > Satchels", "74.00", 5, "North Loft", "Oil yearly", 1480,
          "Bridle leather, eleven pockets."),
    Goods("Hollow Oak Bread Satchel", "ST-604", "Deck > Satchels", "25.50", 18, "Mill Lane", "Hand wash", 330,
          "Linen, drawstring, keeps a loaf for three days."),
    Goods("Brackwater Dry Satchel", "ST-609", "Deck > Satchels", "46.00", 13, "Gull Quay", "Wipe down", 520,
          "Roll top, thirty litres, floats."),
    Goods("Pole Star Chart Satchel", "ST-612", "Deck > Satchels", "88.00", 2, "North Loft", "Send to the workshop", 990,
          "Stiff tube and flat pocket for folded charts."),
)  # fmt: skip

PATRONS = (
    ("emma", "Emma", "Lopez", "14 Mill Road", "Springfield", "10001", "NY"),
    ("liam", "Liam", "Chen", "3 Harbor Street", "Portland", "04101", "ME"),
    ("sara", "Sara", "Novak", "77 Canal Row", "Salem", "01970", "MA"),
    ("tom", "Tom", "Baker", "9 Orchard Lane", "Dover", "03820", "NH"),
    ("ivy", "Ivy", "Grant", "52 Lighthouse Way", "Newport", "02840", "RI"),
)

REMARKS = (
    ("LN-207", "sara", 5, "Stands in a gale", "Hung from the boom for a week of squalls and never went out once.", 1),
    ("LN-207", "tom", 3, "Heavy but honest", "Good light, though you notice the weight on the second day.", 1),
    ("LN-212", "ivy", 4, "Fits the coat pocket", "Small, bright enough to read by, the hinge is a little stiff.", 1),
    ("TP-104", "liam", 5, "Dry all October", "Three storms and not a drop came through the wax.", 1),
    ("MG-309", "emma", 4, "Stays put", "It really does not slide, even with the stove swinging.", 1),
    ("KT-409", "ivy", 2, "Rusted at once", "Came without oil on it and had spots after one night outside.", 0),
    ("KN-502", "tom", 5, "Keeps its edge", "A season of splicing and I have not touched the stone yet.", 0),
    ("ST-609", "sara", 1, "Does not float", "Mine sank like an anchor with four kilos of tools in it.", 0),
    ("KT-401", "liam", 4, "Pours clean", "No drips, and the copper bottom is quick on a small flame.", 1),
)
