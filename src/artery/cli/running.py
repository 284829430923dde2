"""Commands that run Artery: up, open, run, selftest."""

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

import typer

from artery import crash
from artery.cli import show
from artery.cli.environment import has_desktop, running, settings_now, with_live
from artery.errors import BadInput
from artery.telemetry import set_up_logs

if TYPE_CHECKING:
    from artery.app import up as house

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def add_to(app: typer.Typer) -> None:
    app.command()(up)
    app.command("open")(open_)
    app.command()(run)
    app.command()(selftest)


def up(
    live: Annotated[str | None, typer.Option(help="Take this real venue instead of the simulated one.")] = None,
    json: Json = False,
) -> None:
    """Start everything; Ctrl-C stops it."""
    settings = with_live(settings_now(), live)
    from artery.app import up as house

    set_up_logs(settings.log.level, as_json=settings.log.json)

    def ready(found: house.Ready) -> None:
        if json:
            show.as_json({"url": found.url, "link": found.link, "folder": str(found.folder)})
            return
        _welcome(found)
        if found.page and has_desktop():
            show.open_page(found.link)

    if not json:
        venue = "a SIMULATED venue" if settings.simulated else settings.ingest.provider
        show.out.print(f"Artery starts on {venue}; the page comes in seconds, live candles in about half a minute.")
    house.up(settings, os.environ, show.say, ready)
    if not json:
        show.out.print("Everything has stopped.")


def _welcome(found: "house.Ready") -> None:
    if found.simulated:
        show.out.print("\nThe market is [bold]SIMULATED[/]: prices are made up on this machine.")
    if found.page:
        show.out.print(f"\n  Open [bold]{found.link}[/]\n")
    else:
        show.out.print(f"\n  The page is not built (it needs Node 20); the API is at [bold]{found.url}[/]\n")
    show.out.print(f"Key, data and logs are in {found.folder}. Ctrl-C stops everything.")


def open_(json: Json = False) -> None:
    """Make a new link to the page."""
    from artery.app.up import start_link

    settings, url = running(settings_now())
    link = asyncio.run(start_link(settings, url))
    if json:
        show.as_json({"url": url, "link": link})
        return
    show.out.print(f"{link}\nIt opens the page once, within five minutes.")
    if has_desktop():
        show.open_page(link)


def run(
    service: Annotated[str, typer.Argument(help="serve (ingest and gateway), ingest, gateway, pipeline or sim.")],
    master: Annotated[str, typer.Option(help="For the pipeline: Spark's master, if not ART_PIPELINE_MASTER.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Write log lines as JSON.")] = False,
) -> None:
    """Run one service in this process."""
    from artery.app import services

    settings = settings_now()
    if master:
        if service != "pipeline":
            raise BadInput(f"--master is for the pipeline, not for {service!r:.40}")
        settings = settings.with_(pipeline={"master": master})
    set_up_logs(settings.log.level, as_json=json or settings.log.json)
    crash.arm(settings.crash.point)
    services.run(service, settings)


def selftest(json: Json = False) -> None:
    """Try everything out in a temporary folder."""
    from artery.app.selftest import Step
    from artery.app.selftest import run as walk

    def tell(step: Step) -> None:
        mark = "[green]✓[/]" if step.ok else "[red]✗[/]"
        show.err.print(f"{mark} {step.step:<42} {step.ms / 1000:7.1f} s  {step.error}".rstrip())

    if not json:
        show.err.print("Artery starts in a temporary folder; this takes a minute or two.")
    steps = walk(settings_now(), os.environ, tell, show.progress)
    ok = all(step.ok for step in steps)
    if json:
        show.as_json({"ok": ok, "steps": [step.row() for step in steps]})
    else:
        show.out.print("Everything works." if ok else "[red]Something does not work; see above.[/]")
    if not ok:
        raise typer.Exit(1)
