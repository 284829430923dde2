"""The routes of those who watch over the gateway: alive, ready, numbers."""

from contextlib import suppress

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from artery.errors import ArteryError, NotAllowed
from artery.gateway import answers, keys, readiness
from artery.gateway.access import need
from artery.gateway.grants import Scope
from artery.gateway.lake_state import measure, read_state
from artery.gateway.parts import Parts
from artery.gateway.shapes import Alive, Ready
from artery.gateway.table import Answer, Ask, Route

_NUMBERS = "# HELP artery_gateway_gaps_total Holes that clients were told of, by reason.\n"
_BUS = {
    "stream": "trade", "group": "cg_storage_trade", "lag": 0, "pending": 0, "length": 120, "lost": 0, "ok": True,
    "words": "has read everything",
}  # fmt: skip


def routes(parts: Parts) -> list[Route]:
    async def healthz(_ask: Ask) -> Response:
        return answers.json(Alive(True))

    async def readyz(ask: Ask) -> Response:
        report = await readiness.report(
            parts.bus, parts.store, provider=parts.provider, workers=parts.workers, now_ms=keys.wall_ms()
        )
        status = 200 if report.ready else 503
        try:
            need(await parts.access.verify(parts.shown(ask.request), ask.address), Scope.READ)
        except NotAllowed:
            return answers.json(Ready(report.ready), status)
        return answers.json(report, status)

    async def numbers(_ask: Ask) -> Response:
        with suppress(ArteryError):  # the other numbers are there all the same
            measure(await read_state(parts.store))
        own = generate_latest().decode()
        return Response(own + await readiness.pipeline_lines(parts.store), media_type=CONTENT_TYPE_LATEST)

    well = readiness.Report(True, True, [], readiness.pipeline_state({}, 0), [_BUS])
    shapes = (readiness.Report, Ready)
    return [
        Route(
            method="GET",
            path="/healthz",
            name="healthz",
            doc="This process is alive.",
            handle=healthz,
            open=True,
            cost=0.0,
            answers=(Answer(Alive(True), (Alive,)),),
        ),
        Route(
            method="GET",
            path="/readyz",
            name="readyz",
            doc="Whether live data flows; with a key also how each part is, in words.",
            handle=readyz,
            open=True,
            cost=0.0,
            answers=(
                Answer(well, shapes, "Live data flows."),
                Answer(Ready(False), shapes, "Live data does not flow now.", status=503),
            ),
        ),
        Route(
            method="GET",
            path="/metrics",
            name="metrics",
            doc="Counters for Prometheus.",
            handle=numbers,
            answers=(Answer(_NUMBERS, (str,), media="text/plain"),),
        ),
    ]
