"""Dead letters over HTTP: entries of the log that were given up, why, and how to try them again."""

from starlette.responses import Response

from artery.bus.dead import letter_rows
from artery.gateway import answers
from artery.gateway.asks import Choice, Param, Text, Whole
from artery.gateway.grants import Scope
from artery.gateway.parts import Parts
from artery.gateway.shapes import Letter, Letters, Requeue
from artery.gateway.table import Answer, Ask, Route

_PLACE = Text(r"[0-9]{1,18}(?:-[0-9]{1,18})?", "a letter's id, as /v1/dead lists it")
_LETTER = Letter(
    "17", 1_730_000_000_000, "trade", "4711", "cg_storage_trade", "px must be above zero, not '-1'", "1", False,
    {"ver": "1", "t": "TRADE", "coin": "BTC", "px": "-1"},
)  # fmt: skip


def routes(parts: Parts) -> list[Route]:
    async def dead(ask: Ask) -> Response:
        limit = ask.values["limit"]
        found = await letter_rows(
            parts.bus, limit, every=ask.values["all"] == "true", before=ask.values["before"] or ""
        )
        return answers.json({"letters": found, "next": found[-1].id if len(found) == limit else None})

    async def requeue(ask: Ask) -> Response:
        return answers.json(Requeue(ask.values["id"], await parts.bus.requeue(ask.values["id"])))

    return [
        Route(
            method="GET",
            path="/v1/dead",
            name="dead",
            doc="Entries of the log that were given up, and why, newest first.",
            handle=dead,
            scope=Scope.ADMIN,
            params=(
                Param(name="limit", kind=Whole(1, 500), doc="how many", example=20, default=50),
                Param(name="before", kind=_PLACE, doc="`next` of the page before", example="17"),
                Param(
                    name="all",
                    kind=Choice(("true", "false")),
                    doc="also those that were requeued",
                    example="false",
                    default="false",
                ),
            ),
            answers=(Answer(Letters([_LETTER], None), (Letters,)),),
        ),
        Route(
            method="POST",
            path="/v1/dead/{id}/requeue",
            name="requeue",
            doc="Append a letter's entry to its stream once more.",
            handle=requeue,
            scope=Scope.ADMIN,
            params=(Param(name="id", kind=_PLACE, doc="the letter's id", example="17", required=True),),
            errors=(404,),
            answers=(Answer(Requeue("17", "4712"), (Requeue,)),),
        ),
    ]
