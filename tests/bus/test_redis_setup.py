"""A Redis that cannot be used is named in one sentence that says what to do."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from artery.bus.redis import RedisBus
from artery.bus.redis_check import check_redis
from artery.errors import BadSetting, CannotStart, Unavailable
from tests.bus.steps import answering, said
from tests.servers import RedisServer, free_port


@pytest.fixture(scope="module")
def locked() -> Iterator[RedisServer]:
    made = RedisServer(None, "--requirepass", "right")
    yield made.start()
    made.end()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer()
    yield made.start()
    made.end()


@pytest.fixture
async def old_server() -> AsyncIterator[str]:
    """Speaks Redis's protocol, and says that it is Redis 6.2."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = b"# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n"
        while await reader.read(1_000):
            writer.write(b"$%d\r\n%s\r\n" % (len(info), info))

    async with answering(serve) as port:
        yield f"redis://127.0.0.1:{port}"


async def test_a_wrong_and_a_missing_password_are_told_apart(locked: RedisServer, server: RedisServer) -> None:
    where = f"127.0.0.1:{locked.port}/0"
    assert "refuses this user or password" in await said(f"redis://:wrong-secret@{where}", BadSetting)
    assert "wants a password" in await said(f"redis://{where}", BadSetting)
    assert "leave it out" in await said(f"redis://:wrong-secret@127.0.0.1:{server.port}/0", BadSetting)
    bus = RedisBus(f"redis://:right@{where}")
    assert await bus.append("trade", [{"n": "1"}])
    await bus.close()


async def test_protected_mode_is_named_with_what_to_set() -> None:
    async def deny(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What Redis says in this mode to whoever comes from another machine, and hangs up."""
        writer.write(
            b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for "
            b"the default user. In this mode connections are only accepted from the loopback interface.\r\n"
        )
        await writer.drain()

    async with answering(deny) as port:
        text = await said(f"redis://127.0.0.1:{port}", BadSetting)
    for words in ("protected mode", "set a password there (requirepass) and in ART_BUS_URL", "or bind it"):
        assert words in text


async def test_a_database_that_is_not_there_is_named(server: RedisServer) -> None:
    assert "no database of that number" in await said(f"redis://127.0.0.1:{server.port}/99999", BadSetting)


async def test_a_server_that_is_too_old_is_refused(old_server: str) -> None:
    assert "is 6.2: Artery needs Redis 7.0" in await said(old_server, CannotStart)


async def test_a_cluster_is_refused() -> None:
    cluster = RedisServer(None, "--cluster-enabled", "yes")
    try:
        assert "part of a cluster" in await said(cluster.start().url, CannotStart)
    finally:
        cluster.end()


async def test_a_replica_is_refused_until_it_is_a_primary(server: RedisServer) -> None:
    replica = RedisServer().start()
    try:
        with redis.Redis(port=replica.port) as client:
            client.replicaof("127.0.0.1", str(free_port()))
        text = await said(replica.url, Unavailable)
        assert "replica" in text or "cannot serve now" in text
    finally:
        replica.end()


async def test_a_name_that_holds_something_else_is_said(server: RedisServer) -> None:
    url = server.new_url()
    with redis.Redis.from_url(url) as client:
        client.set("md_stream:trade", "no stream")
    assert "something else" in await said(url, BadSetting)
    bus = RedisBus(url)
    with pytest.raises(BadSetting):
        await bus.read("trade")
    await bus.close()


async def test_a_server_that_is_full_refuses_the_whole_append_and_heals_by_itself(server: RedisServer) -> None:
    bus, url = RedisBus(server.new_url()), server.url
    await bus.append("trade", [{"n": "1"}])
    with redis.Redis.from_url(url) as client:
        client.config_set("maxmemory", "1mb")
        try:
            with pytest.raises(Unavailable, match="out of memory"):
                await bus.append("trade", [{"n": "2"}], writer="sim", epoch=9)
        finally:
            client.config_set("maxmemory", "0")
    await bus.append("trade", [{"n": "3"}], writer="sim", epoch=8)
    assert [entry.fields["n"] for entry in await bus.read("trade")] == ["1", "3"]
    await bus.close()


async def test_the_check_says_what_is_dangerous_and_nothing_when_all_is_well(server: RedisServer) -> None:
    url = server.url
    with redis.Redis.from_url(url) as client:
        client.config_set("maxmemory", "100mb")
        assert await check_redis(url) == []
        client.config_set("maxmemory", "0")
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("appendonly", "no")
        try:
            found = await check_redis(url)
        finally:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("appendonly", "yes")
    assert len(found) == 3
    for words in ("appendonly yes", "maxmemory-policy noeviction", "no limit of memory"):
        assert any(words in sentence for sentence in found)
    assert all(sentence.startswith(f"Redis at 127.0.0.1:{server.port}: ") for sentence in found)
    assert "nothing listens there" in (await check_redis(f"redis://127.0.0.1:{free_port()}"))[0]
    assert "names no Redis server" in (await check_redis("redis://"))[0]
