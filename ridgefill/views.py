"""The DuckDB views over a results folder as SQL: those of ``views.sql``, and those of the files it has beside them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

VIEWS_SQL = Path(__file__).with_name("views.sql")

# Files that a folder may have whose numbers are measurements too, and the query beside this module that turns their
# view into rows of ``measure``. A metric of another such file is a line here and its query.
MORE_MEASURES: dict[str, str] = {
    "agreement/tokens.parquet": "agreement_items.sql",
    "turns/samples.parquet": "turn_items.sql",
    "served/requests.parquet": "served_ceiling_items.sql",
    "served/pairs.parquet": "served_pair_items.sql",
    "longbench_v1/samples.parquet": "longbench_items_v1.sql",
    "longbench_v2/samples.parquet": "longbench_items_v2.sql",
}


def view_name(file: str) -> str:
    """The view of a file that not every folder has: ``ruler_arms`` of ``ruler/arms.parquet``."""
    return file.removesuffix(".parquet").replace("/", "_")


def views_over(more: Collection[str]) -> str:
    """SQL that makes every view of a folder which has the files ``more`` beside those of ``views.sql``.

    Paths are relative to the folder. Without files of ``MORE_MEASURES`` the text is that of ``views.sql`` and one view
    for each of ``more``; with them the view ``measure`` has their rows too.
    """
    text = VIEWS_SQL.read_text(encoding="utf-8")
    views = "".join(
        f"CREATE VIEW {view_name(file)} AS\n    SELECT * FROM read_parquet('{file}', hive_partitioning = false);\n"
        for file in more
    )
    text += f"\n{views}" if views else ""
    queries = [
        VIEWS_SQL.with_name(name).read_text(encoding="utf-8") for file, name in MORE_MEASURES.items() if file in more
    ]
    if queries:
        parts = "".join(f"    UNION ALL\n    SELECT * FROM (\n{query.strip()}\n    )\n" for query in queries)
        text += "\nALTER VIEW measure RENAME TO measure_everywhere;\n"
        text += f"CREATE VIEW measure AS\n    SELECT * FROM measure_everywhere\n{parts.rstrip()};\n"
    return text
