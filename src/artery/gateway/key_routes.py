"""The routes of those who come in: the page's session, and keys for whoever may make them."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from artery.errors import BadInput, NotAllowed
from artery.gateway import answers, keys, metrics
from artery.gateway.access import SESSION_S
from artery.gateway.asks import Param, Text
from artery.gateway.door import cookie_value
from artery.gateway.grants import Grant, Scope
from artery.gateway.parts import Parts
from artery.gateway.shapes import Expiry, KeyRow, Keys, MadeKey, NewKey, Proof, Who
from artery.gateway.table import Answer, Ask, Body, Route

_ID = Param(
    name="id",
    kind=Text(r"[a-z0-9]{12}", "a key's id, as /v1/keys lists it"),
    doc="the key's id, as /v1/keys lists it",
    example="0a1b2c3d4e5f",
    required=True,
)
_WHO = Who("local", ["admin", "alerts", "events", "read", "stream"])
_ROW = KeyRow("0a1b2c3d4e5f", "ann", ["read", "stream"], 1_730_000_000_000, None, None)
_MADE = MadeKey(**msgspec.structs.asdict(_ROW), key="art_live_0a1b2c3d4e5f.<secret>")
_ENDED = msgspec.structs.replace(_ROW, revoked_ms=1_730_000_060_000)


def routes(parts: Parts) -> list[Route]:
    return [*_session_routes(parts), *_key_routes(parts)]


def _session_routes(parts: Parts) -> list[Route]:
    async def open_session(ask: Ask) -> Response:
        value, grant = await _opened(parts, ask)
        response = answers.json(_who(grant))
        secure = ask.request.url.scheme == "https"
        response.set_cookie(
            parts.cookie_name, value, max_age=SESSION_S, path="/", secure=secure, httponly=True, samesite="strict"
        )
        return response

    async def session(ask: Ask) -> Response:
        assert ask.grant is not None
        return answers.json(_who(ask.grant))

    async def close_session(ask: Ask) -> Response:
        value = _cookie(ask.request, parts.cookie_name)
        if value:
            await parts.access.close_page(value)
        response = Response(status_code=204)
        response.delete_cookie(parts.cookie_name, path="/", httponly=True, samesite="strict")
        return response

    return [
        Route(
            method="POST",
            path="/v1/session",
            name="open_session",
            doc="Trade a one-use start code or a key for the page's cookie.",
            handle=open_session,
            open=True,
            body=Body(Proof, {"start": "the code of `artery open`"}),
            errors=(401,),
            answers=(Answer(_WHO, (Who,), headers={"Set-Cookie": "The page's session, for 30 days."}),),
        ),
        Route(
            method="GET",
            path="/v1/session",
            name="session",
            doc="Who the key or the cookie speaks for.",
            handle=session,
            scope=None,
            answers=(Answer(_WHO, (Who,)),),
        ),
        Route(
            method="DELETE",
            path="/v1/session",
            name="close_session",
            doc="End the page's session.",
            handle=close_session,
            open=True,
            answers=(Answer(None, (), "It is over.", status=204),),
        ),
    ]


def _key_routes(parts: Parts) -> list[Route]:
    async def list_keys(_ask: Ask) -> Response:
        return answers.json(Keys([KeyRow.of(key) for key in await keys.list_keys(parts.store)]))

    async def make_key(ask: Ask) -> Response:
        wanted: NewKey = ask.body
        expires_ms = keys.expiry_ms(wanted.expires_in_s, keys.wall_ms())
        key, text = await keys.make_key(parts.store, wanted.user, wanted.scopes, expires_ms)
        return answers.json(MadeKey(**msgspec.structs.asdict(KeyRow.of(key)), key=text), 201)

    async def expire_key(ask: Ask) -> Response:
        expires_ms = keys.expiry_ms(ask.body.expires_in_s, keys.wall_ms())
        return answers.json(KeyRow.of(await keys.expire(parts.store, ask.values["id"], expires_ms)))

    async def revoke_key(ask: Ask) -> Response:
        return answers.json(KeyRow.of(await keys.revoke(parts.store, ask.values["id"])))

    return [
        Route(
            method="GET",
            path="/v1/keys",
            name="list_keys",
            doc="Every key, oldest first; those that have ended for 30 days.",
            handle=list_keys,
            scope=Scope.ADMIN,
            answers=(Answer(Keys([_ROW]), (Keys,)),),
        ),
        Route(
            method="POST",
            path="/v1/keys",
            name="make_key",
            doc="Make a key; its text is in this answer and nowhere else.",
            handle=make_key,
            scope=Scope.ADMIN,
            body=Body(NewKey, NewKey("ann", ["read", "stream"], 30 * 86_400)),
            answers=(Answer(_MADE, (MadeKey,), "The key.", status=201),),
        ),
        Route(
            method="PATCH",
            path="/v1/keys/{id}",
            name="expire_key",
            doc="Let a key end at a time, or never.",
            handle=expire_key,
            scope=Scope.ADMIN,
            params=(_ID,),
            body=Body(Expiry, Expiry(3_600)),
            errors=(404,),
            answers=(Answer(_ROW, (KeyRow,)),),
        ),
        Route(
            method="DELETE",
            path="/v1/keys/{id}",
            name="revoke_key",
            doc="End a key; whoever is connected with it is cut off within 5 s, at every gateway.",
            handle=revoke_key,
            scope=Scope.ADMIN,
            params=(_ID,),
            errors=(404,),
            answers=(Answer(_ENDED, (KeyRow,)),),
        ),
    ]


async def _opened(parts: Parts, ask: Ask) -> tuple[str, Grant]:
    proof: Proof = ask.body
    if bool(proof.start) == bool(proof.key):
        raise BadInput("give either start or key")
    try:
        return await parts.access.open_page(start=proof.start, key=proof.key, address=ask.address)
    except NotAllowed:
        metrics.AUTH_FAILURES.labels("session").inc()
        raise


def _who(grant: Grant) -> Who:
    return Who(grant.user, sorted(grant.scopes))


def _cookie(request: Request, name: str) -> str:
    return cookie_value(request.headers.get("cookie", ""), name)
