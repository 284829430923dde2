"""`artery keys`: list, create, expire, revoke."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from artery.cli import show
from artery.cli.environment import settings_now
from artery.cli.moments import iso_text
from artery.cli.running import Json
from artery.model.periods import Period
from artery.store.base import Store

if TYPE_CHECKING:
    from artery.gateway.keys import Key

T = TypeVar("T")

app = typer.Typer(help="List, create, expire and revoke API keys.", rich_markup_mode=None, invoke_without_command=True)


@app.callback()
def _list_unless_told(context: typer.Context, json: Json = False) -> None:
    if context.invoked_subcommand is None:
        list_(json=json)


@app.command("list")
def list_(json: Json = False) -> None:
    """List every key; secrets are not kept, so they cannot be shown."""
    from artery.gateway.keys import list_keys

    found = [_row(key) for key in _in_the_store(list_keys)]
    if json:
        show.as_json(found)
    else:
        show.table(tuple(found[0]) if found else ("no keys yet",), [tuple(row.values()) for row in found])


@app.command()
def create(
    user: Annotated[str, typer.Argument(help="Whom the key belongs to.")],
    scopes: Annotated[str, typer.Option(help="read, stream, alerts, events, admin; separated by commas.")] = (
        "read,stream"
    ),
    expires: Annotated[str, typer.Option(help="End it after so long, as in 30d or 12h; not given: never.")] = "",
    json: Json = False,
) -> None:
    """Make a key and print it; it cannot be shown again."""
    from artery.gateway.keys import make_key

    wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
    expires_ms = _after(expires) if expires else None
    key, text = _in_the_store(lambda store: make_key(store, user, wanted, expires_ms))
    show.as_json(_row(key) | {"key": text}) if json else show.out.print(text, markup=False)


@app.command()
def curve(
    name: Annotated[str, typer.Argument(help="Which key: one for each machine or program of a user.")],
    user: Annotated[str, typer.Option(help="Whom it belongs to; not given: the same as the name.")] = "",
    roles: Annotated[str, typer.Option(help="client, ingestor, processor; separated by commas.")] = "client",
    folder: Annotated[str, typer.Option(help="The relay's folder; not given: ART_RELAY_KEYS.")] = "",
    revoke: Annotated[bool, typer.Option("--revoke", help="End the key now; its connections are cut.")] = False,
    json: Json = False,
) -> None:
    """Make a key pair with which a relay on other machines lets someone in, or end one."""
    from artery.app.relaying import make_pair, revoke_pair

    settings = settings_now()
    if revoke:
        revoke_pair(settings, name, folder)
        show.as_json({"name": name, "revoked": True}) if json else show.out.print(f"The key {name} is revoked.")
        return
    made = make_pair(settings, name, user, [role.strip() for role in roles.split(",") if role.strip()], folder)
    if json:
        show.as_json({"name": name, "file": str(made)})
    else:
        show.out.print(str(made), markup=False, soft_wrap=True)


@app.command()
def expire(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `artery keys` lists it.")],
    after: Annotated[str, typer.Option(help="End it so long from now, as in 1h or 7d; `never` takes an end away.")],
    json: Json = False,
) -> None:
    """Let a key end by itself."""
    from artery.gateway.keys import expire as end

    expires_ms = None if after == "never" else _after(after)
    key = _in_the_store(lambda store: end(store, key_id, expires_ms))
    words = f"ends at {_time(key.expires_ms)}" if key.expires_ms else "does not end"
    show.as_json(_row(key)) if json else show.out.print(f"The key {key.id} of {key.user} {words}.", markup=False)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `artery keys` lists it.")], json: Json = False
) -> None:
    """End a key now; whoever is connected with it is cut off within 5 s."""
    from artery.gateway.keys import revoke as end

    key = _in_the_store(lambda store: end(store, key_id))
    show.as_json(_row(key)) if json else show.out.print(f"The key {key.id} of {key.user} is revoked.", markup=False)


def _in_the_store(work: Callable[[Store], Awaitable[T]]) -> T:
    from artery.app.wiring import opened_store

    async def doing() -> T:
        async with opened_store(settings_now()) as store:
            return await work(store)

    return asyncio.run(doing())


def _after(text: str) -> int:
    """The moment so long from now."""
    from artery.gateway.keys import wall_ms

    return wall_ms() + Period.parse(text).ms


def _row(key: "Key") -> dict[str, str]:
    return {
        "id": key.id,
        "user": key.user,
        "scopes": ",".join(key.scopes),
        "created": _time(key.created_ms),
        "expires": _time(key.expires_ms),
        "revoked": _time(key.revoked_ms),
    }


def _time(ms: int | None) -> str:
    return "" if ms is None else iso_text(ms)
