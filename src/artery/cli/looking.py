"""Commands that look: doctor, settings."""

import os

import typer

from artery.cli import show
from artery.cli.environment import settings_now
from artery.cli.running import Json
from artery.settings import as_text


def add_to(app: typer.Typer) -> None:
    app.command()(doctor)
    app.command()(settings)


def doctor(json: Json = False) -> None:
    """Say what this machine has and what it lacks."""
    from artery.app.doctor import examine

    findings = examine(settings_now(), os.environ)
    if json:
        show.as_json({"ok": all(one.ok for one in findings), "findings": findings})
    else:
        marks = {"ok": "✓", "optional": "–", "missing": "✗"}
        show.table(
            ("", "part", "found", "what to do"), [(marks[one.state], one.part, one.found, one.do) for one in findings]
        )
        missing = [one.part for one in findings if not one.ok]
        show.out.print(f"\nMissing: {', '.join(missing)}." if missing else "\nNothing that Artery needs is missing.")
    if not all(one.ok for one in findings):
        raise typer.Exit(1)


def settings(json: Json = False) -> None:
    """List every setting and what it means."""
    rows = [
        (name, "***" if secret and value else as_text(value), as_text(default), doc)
        for name, value, default, doc, secret in settings_now().rows()
    ]
    if json:
        show.as_json([dict(zip(("name", "value", "default", "doc"), row, strict=True)) for row in rows])
        return
    show.table(("setting", "value", "meaning"), [(name, value or "(empty)", doc) for name, value, _, doc in rows])
