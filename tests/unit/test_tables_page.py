"""The page on the database: it names every table, view and column, and its queries run."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from unit.tableworld import make_database, make_run

Columns = list[tuple[str, str]]


@pytest.fixture(scope="module")
def page(project: Path) -> str:
    return (project / "docs" / "tables.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_database(tmp_path_factory.mktemp("page"), make_run(1, questions=5))


def test_the_page_is_the_databases_schema(page: str, database: Path) -> None:
    described: dict[tuple[str, str], Columns] = {}
    for section in page.split("\n### ")[1:]:
        head = re.match(r"(table|view) `(\w+)`\n", section)
        assert head, section[:40]
        cells = re.findall(r"^\| `(\w+)` \| ([\w\[\]]+) \| \S.* \|$", section, re.MULTILINE)
        assert len(cells) == section.count("\n| `"), f"a row of {head[2]} lacks its type or meaning"
        described[head[1], head[2]] = cells
    with duckdb.connect(str(database), read_only=True) as connection:
        names = connection.execute("SELECT table_type, table_name FROM information_schema.tables").fetchall()
        found: dict[tuple[str, str], Columns] = {}
        for kind, name in names:
            columns = connection.execute(f"DESCRIBE {name}").fetchall()
            found["view" if kind == "VIEW" else "table", name] = [(column[0], column[1]) for column in columns]
    assert described.keys() == found.keys()
    for name, columns in found.items():
        assert sorted(described[name]) == sorted(columns), f"docs/tables.md, {' '.join(name)}"


def test_the_pages_queries_run(page: str, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = re.findall(r'metrics\.duckdb -c "([^"]+)"', page) + re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    assert len(queries) >= 2
    with duckdb.connect(str(database), read_only=True) as connection:
        for query in queries:
            connection.execute(query)
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (database.parent / "results").mkdir()
    database.rename(database.parent / "results" / "metrics.duckdb")
    monkeypatch.chdir(database.parent)
    exec(compile(code, "docs/tables.md", "exec"), {})


def test_every_table_file_is_a_rule_and_the_other_way_round(page: str, project: Path) -> None:
    named = set(re.findall(r"^\| `(\w+)` \| .*", page.partition("## Flags")[0], re.MULTILINE))
    rules = "".join((project / "rules" / f"{name}.smk").read_text(encoding="utf-8") for name in ("tables", "pilots"))
    assert named == set(re.findall(r"\{RESULTS\}/(\w+)\.tex", rules))
