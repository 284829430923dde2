"""What the environment asks for, and where Artery runs on this machine."""

import os
import sys
from pathlib import Path

from artery.app.notes import read_note
from artery.app.preflight import is_running
from artery.errors import BadInput, Unavailable
from artery.settings import Settings, load

LIVE_VENUES = {"hyperliquid": "hyperliquid_perp"}


def settings_now() -> Settings:
    """The settings of this environment."""
    return load(os.environ)


def with_live(settings: Settings, venue: str | None) -> Settings:
    """The same settings on a real venue, if one is named."""
    if venue is None:
        return settings
    if venue not in LIVE_VENUES:
        raise BadInput(f"{venue!r:.40} is not a venue that Artery knows; there is {', '.join(LIVE_VENUES)}")
    return settings.with_(ingest={"provider": LIVE_VENUES[venue]})


def running(settings: Settings) -> tuple[Settings, str]:
    """Settings and address of the Artery that runs in the data folder: the chosen venue's first, then any other's."""
    others = sorted(path.parent.name for path in Path(settings.folder.parent).glob("*/run"))
    for provider in dict.fromkeys([settings.ingest.provider, *others]):
        found = settings.with_(ingest={"provider": provider})
        note = read_note(found.folder, "serve" if is_running(found.folder) else "gateway")
        if note and note.url:
            return found, note.url
    raise Unavailable(f"no Artery runs on {settings.folder.parent}; start it with `artery up`")


def local_key(settings: Settings) -> str:
    """The local user's key."""
    file = settings.folder / "key"
    try:
        return file.read_text().strip()
    except OSError as error:
        raise Unavailable(f"the key in {file} cannot be read ({error.strerror}); run this as its owner") from error


def has_desktop() -> bool:
    """Whether a person sits at a desktop here, so that a browser may be opened."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("CI") or os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
