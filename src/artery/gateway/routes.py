"""All routes of the HTTP side, in one table."""

from starlette.responses import Response

import artery
from artery.gateway import answers, dead, indicator_routes, key_routes, market_routes, openapi, udf, watch_routes
from artery.gateway.parts import Parts
from artery.gateway.shapes import Anything
from artery.gateway.table import Answer, Ask, Route, Table


def make_table(parts: Parts) -> Table:
    """The table; the description of the interface is one of its routes."""
    rooms = (market_routes, indicator_routes, udf, key_routes, dead, watch_routes)
    found = [route for room in rooms for route in room.routes(parts)]
    found.append(_description(found))
    return Table(found)


def _description(found: list[Route]) -> Route:
    made: list[dict[str, object]] = []

    async def describe(_ask: Ask) -> Response:
        if not made:
            made.append(openapi.document(found, artery.__version__))
        return answers.json(made[0])

    return Route(
        method="GET",
        path="/openapi.json",
        name="openapi",
        doc="This description.",
        handle=describe,
        open=True,
        answers=(Answer({"openapi": "3.1.0"}, (Anything,)),),
    )
