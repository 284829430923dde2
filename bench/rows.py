"""What a figure is, and how it is shown to people and programs."""

import operator
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

OUT = Path(__file__).parent / "out" / "latest.json"


class Row(msgspec.Struct, frozen=True):
    """One figure; `goal` is written as `<= 30` or `>= 0.8` and judged on the ratio if there is a peer."""

    name: str
    ours: float
    unit: str
    goal: str = ""
    peer: str = ""
    theirs: float | None = None
    ratio: float | None = None
    ok: bool = True


def row(name: str, ours: float, unit: str, goal: str = "", peer: str = "", theirs: float | None = None) -> Row:
    """A figure with its ratio and its verdict."""
    ratio = ours / theirs if theirs else None
    judged = ratio if ratio is not None else ours
    return Row(
        name, round(ours, 3), unit, goal, peer, theirs, None if ratio is None else round(ratio, 3), meets(judged, goal)
    )


def meets(value: float, goal: str) -> bool:
    """Whether the value meets the goal; no goal is always met."""
    if not goal:
        return True
    sign, bound = goal.split()
    return bool({"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}[sign](value, float(bound)))


def keep(rows: Sequence[Row]) -> None:
    """Write the rows to bench/out/latest.json, in the place of older ones of the same names."""
    OUT.parent.mkdir(parents=True, exist_ok=True)
    old = msgspec.json.decode(OUT.read_bytes(), type=list[Row]) if OUT.exists() else []
    names = {fresh.name for fresh in rows}
    kept = [before for before in old if before.name not in names] + list(rows)
    OUT.write_bytes(msgspec.json.format(msgspec.json.encode(kept)))


def show(rows: Sequence[Row]) -> None:
    """A table for people."""
    table = Table("figure", "ours", "unit", "peer", "theirs", "ratio", "goal", "")
    for item in rows:
        table.add_row(
            item.name,
            _figure(item.ours),
            item.unit,
            item.peer,
            "" if item.theirs is None else _figure(item.theirs),
            "" if item.ratio is None else f"{item.ratio:.2f}",
            item.goal,
            "[green]ok[/]" if item.ok else "[red]falls short[/]",
        )
    Console(width=120).print(table)


def _figure(value: float) -> str:
    return f"{value:,.3g}" if value < 1_000 else f"{value:,.0f}"
