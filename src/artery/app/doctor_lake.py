"""What the doctor says of a cluster's parts: the lake's catalog on a server, and Spark's master."""

import socket
from collections.abc import Iterator
from typing import Literal
from urllib.parse import urlsplit

from artery.app import machine
from artery.errors import ArteryError
from artery.pipeline.session import further_jars
from artery.settings import Settings
from artery.telemetry import masked

MASTER_PORT = 7077
Row = tuple[str, Literal["ok", "optional", "missing"], str, str]
"""Part, state, what was found, what to do."""


def cluster_rows(settings: Settings) -> Iterator[Row]:
    """A row for each part of a cluster that the settings name."""
    if settings.lake.catalog_url:
        yield _catalog(settings)
    if not settings.pipeline.master.startswith("local"):
        yield from _masters(settings.pipeline.master)


def _catalog(settings: Settings) -> Row:
    part = "the lake's catalog"
    try:
        further_jars(settings)
        from artery.lake.catalog import open_catalog

        catalog = open_catalog(settings.folder, settings.lake.catalog_url, create=False)
        with catalog.engine.connect():
            pass
        catalog.engine.dispose()
    except ArteryError as error:
        return part, "missing", "cannot be used", masked(str(error))
    except Exception as error:  # whatever the database's driver raises
        return part, "missing", "does not answer", f"check ART_LAKE_CATALOG_URL ({masked(str(error).splitlines()[0])})"
    return part, "ok", "answers", ""


def _masters(master: str) -> Iterator[Row]:
    """Whether a standalone master listens; of several that stand by for each other, one has to."""
    if not master.startswith("spark://"):
        yield "Spark's master", "optional", master, "it is not a standalone master, so it was not asked"
        return
    silent = []
    for address in master.removeprefix("spark://").split(","):
        at = urlsplit(f"//{address}")
        try:
            socket.create_connection((at.hostname or "", at.port or MASTER_PORT), machine.LOOK_S).close()
        except (OSError, ValueError):
            silent.append(address)
            continue
        yield "Spark's master", "ok", f"{address} answers", ""
        return
    yield "Spark's master", "missing", f"{', '.join(silent)} does not answer", "start it, or set ART_PIPELINE_MASTER"
