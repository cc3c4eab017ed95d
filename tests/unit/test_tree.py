"""The parser of accessibility trees."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.tree import _REQUIRED_SUFFIX, Tree, clean, decode_literal

FORM = """\
RootWebArea 'New ticket | Desk', focused, url='http://h/a,b'
\t[1] navigation 'Top'
\t\t[2] link 'Home', clickable
\t[a50] LabelText ''
\t\tStaticText 'Impact *'
\t[a51] combobox 'Impact' value='Low', clickable, visible, required, hasPopup='menu', expanded=False
\t\t[a52] option 'Low', selected=True
\t\t[a53] option 'High', selected=False
\tStaticText 'Notes'
\t[a54] textbox '', value='it\\'s', disabled=False
\t[a55] radiogroup 'Mandatory - must be populated before Submit Size'
\t\t[a56] radio '\\uf137 250 GB', checked='true'
\t\t[a57] radio '\\uf137 500 GB [add $300.00]', checked='false'
\t[a60] generic, live='assertive', relevant='additions text'
\t\tStaticText 'Saved.'
\t[a61] alert ''
\t\tStaticText 'Title is too short'
\t\t[a62] button 'Close'
\t[a70] table ''
\t\t[a71] row ''
\t\t\t[a72] columnheader 'Number'
\t\t\t[a73] columnheader ''
\t\t\t\tStaticText 'Opened by'
\t\t[a74] row ''
\t\t\t[a75] cell 'INC1'
\t\t\t[a76] cell ''
\t[a80] heading "Peter's list"
\t[a81] tab 'Loading... Orders'
\t\t[a82] link 'Orders'"""


@pytest.fixture
def form() -> Tree:
    return Tree(FORM)


def at(tree: Tree, bid: str) -> int:
    return tree.by_bid[bid]


def test_a_line_is_taken_apart(form: Tree) -> None:
    node = form.nodes[at(form, "a51")]
    assert (node.line, node.depth, node.role, node.name, node.value) == (5, 1, "combobox", "Impact", "Low")
    assert node.properties == {
        "clickable": "True",
        "visible": "True",
        "required": "True",
        "hasPopup": "menu",
        "expanded": "False",
    }
    assert node.flag("required") and not node.flag("expanded") and not node.flag("pressed")


def test_values_with_commas_and_quotes(form: Tree) -> None:
    assert form.nodes[0].properties["url"] == "http://h/a,b"
    assert form.nodes[at(form, "a54")].value == "it's"
    assert form.nodes[at(form, "a80")].name == "Peter's list"


def test_helpers_read_the_form(form: Tree) -> None:
    assert form.title() == "New ticket | Desk"
    assert form.headings() == ["Peter's list"]
    assert form.messages() == ["Saved.", "Title is too short"]
    assert form.column_headers() == [["Number", "Opened by"]]
    assert form.options(at(form, "a51")) == ["Low", "High"]
    assert form.options(at(form, "a55")) == ["250 GB", "500 GB [add $300.00]"]
    assert form.selected(at(form, "a55")) == "250 GB"
    assert form.selected(at(form, "a51")) == "Low"
    assert [form.text(cell) for cell in form.cells(at(form, "a74"))] == ["INC1", ""]
    assert form.tab_text(at(form, "a81")) == "Orders"


def test_labels_and_required_marks(form: Tree) -> None:
    assert form.label(at(form, "a54")) == "Notes"
    assert form.label(at(form, "a55")) == "Size"
    assert form.required(at(form, "a55")) and form.required(at(form, "a51"))
    assert not form.required(at(form, "a54"))


def test_a_required_mark_on_the_label_before_the_field() -> None:
    tree = Tree("RootWebArea 'x'\n\tLabelText 'Name *'\n\t[5] textbox ''\n\t[6] textbox 'Other'")
    assert tree.label(tree.by_bid["5"]) == "Name"
    assert tree.required(tree.by_bid["5"])
    assert not tree.required(tree.by_bid["6"])


def test_a_field_does_not_take_the_label_of_the_field_before() -> None:
    tree = Tree("RootWebArea 'x'\n\tStaticText 'First'\n\t[5] textbox ''\n\t[6] textbox ''")
    assert tree.label(tree.by_bid["5"]) == "First"
    assert tree.label(tree.by_bid["6"]) == ""


def test_a_link_before_a_field_is_not_its_label() -> None:
    tree = Tree("RootWebArea 'x'\n\tStaticText 'First'\n\tlink 'admin'\n\t[5] textbox ''")
    assert tree.label(tree.by_bid["5"]) == ""


def test_the_main_title_is_that_of_the_larger_document() -> None:
    inner = "".join(f"\n\t\t\tStaticText 'line {number}'" for number in range(6))
    tree = Tree(f"RootWebArea 'Shell'\n\t[a] Iframe 'Main'\n\t\tRootWebArea 'Record'{inner}\n\tStaticText 'end'")
    assert tree.title() == "Shell"
    assert tree.titles() == ["Shell", "Record"]
    assert tree.main_title() == "Record"


def test_lines_outside_the_format_are_kept_as_text() -> None:
    tree = Tree("RootWebArea 'x'\n\t??? not a node\n\n\tbutton 'unclosed\n")
    assert [(node.line, node.role) for node in tree.nodes] == [(0, "RootWebArea"), (1, ""), (3, "")]
    assert tree.nodes[1].name == "??? not a node"


def test_only_newlines_end_lines() -> None:
    tree = Tree("StaticText 'one\u2028two'\nStaticText 'three\x0bfour'")
    assert [node.name for node in tree.nodes] == ["one\u2028two", "three\x0bfour"]


@given(st.text())
def test_literals_decode_as_python_reads_them(text: str) -> None:
    assert decode_literal(repr(text)) == text


@given(st.text(alphabet=st.sampled_from("\t\n[]a5 '\"\\xu0,=RootWebArea StaticText row cell value live")))
def test_any_text_parses_and_every_helper_answers(text: str) -> None:
    tree = Tree(text)
    assert len(tree) == len([line for line in text.split("\n") if line.strip()])
    tree.title(), tree.titles(), tree.main_title(), tree.messages(), tree.headings(), tree.column_headers()
    for position, node in enumerate(tree.nodes):
        node.properties, node.label, node.required  # noqa: B018
        tree.label(position), tree.options(position), tree.selected(position), tree.text(position)
        tree.required(position), tree.tab_text(position), tree.cells(position)


@given(st.lists(st.integers(min_value=0, max_value=6), max_size=40))
def test_structure_agrees_with_a_search_over_all_lines(depths: list[int]) -> None:
    tree = Tree("\n".join("\t" * depth + "cell 'x'" for depth in depths))
    for position, depth in enumerate(depths):
        before = [other for other in range(position) if depths[other] < depth]
        enclosing = [
            other for other in before if all(depths[k] > depths[other] for k in range(other + 1, position + 1))
        ]
        assert tree.ancestors(position) == enclosing[::-1]
        assert list(tree.subtree(position)) == [k for k in range(len(depths)) if position in tree.ancestors(k)]
        assert list(tree.children(position)) == [k for k in range(len(depths)) if tree.parents[k] == position]


def test_icon_characters_are_no_text() -> None:
    assert clean("\ue604 DASH\xa0\xa0BOARD \uf132") == "DASH BOARD"


def test_a_large_tree_parses_in_a_fraction_of_a_second() -> None:
    text = "RootWebArea 'x'\n" + "\n".join(
        f"\t\t[{n}] cell 'value {n}', visible, url='http://h/{n}'" for n in range(5000)
    )
    start = time.process_time()
    Tree(text)
    assert len(text) > 200_000 and time.process_time() - start < 0.5


def test_brackets_that_never_close_take_no_long() -> None:
    node = Tree("[1] button 'x'" + ", a=(" * 60_000).nodes[0]
    start = time.process_time()
    assert node.properties == {"a": "("}
    assert time.process_time() - start < 1


def test_a_required_mark_behind_much_white_space_is_taken_off_at_once() -> None:
    start = time.process_time()
    assert _REQUIRED_SUFFIX.sub("", " " * 60_000 + "x (required) ") == " " * 60_000 + "x"
    assert time.process_time() - start < 1
