"""An address that cannot be used is refused in one sentence that says what to do, whichever server it names."""

import pytest

from artery.bus.open import open_bus
from artery.bus.reader import open_reader
from artery.errors import BadSetting, Unavailable
from artery.live.open import open_pubsub
from artery.store.open import open_store
from tests.bus.steps import said
from tests.servers import free_port


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis:///0",
        "redis://host:port/0",
        "redis://host:99999",
        "redis://host/first",
        "redis://host/0?socket_timeout=5",
        "unix://",
        "rediss://host/0?verify=no",
        "kafka://",
        "kafka:///topic",
        "kafka://host:port",
        "kafka://host:99999",
        "kafka://host:9092/topic",
        "kafka://host:9092,",
        "kafka://host?acks=0",
        "kafka://host?tls=maybe",
        "kafka://host?replication=many",
    ],
)
def test_a_bad_address_is_refused_at_once(url: str) -> None:
    for open_it in (open_bus, open_reader):
        with pytest.raises(BadSetting, match="ART_BUS_URL"):
            open_it(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:s3cr/et@host:6379/0",
        "redis://:s3cr#et@host:6379/0",
        "redis://:s3cr?et@host:6379/0",
        "redis://s3cr#et@host:6379/0",
        "redis://host:6379/s3cret@other",
        "rediss://host/0?s3cret=1@other",
        "redis://[s3cret@host",
        "kafka://user:s3cr/et@host:9092",
        "kafka://user:s3cr#et@host:9092",
        "kafka://user:s3cr?et@host:9092",
        "kafka://s3cr?et@host:9092",
        "kafka://host?tls=s3cret",
        "kafka://host?replication=s3cret",
        "kafka://[::1",
        "user:s3cret@host",
        "s3cret://host",
    ],
)
def test_what_is_wrong_with_an_address_is_said_without_a_word_of_it(url: str) -> None:
    """A password that is not escaped may turn up in any part of it."""
    for open_it in (open_bus, open_reader, open_store, open_pubsub):
        with pytest.raises(BadSetting, match="ART_") as error:
            open_it(url)
        assert "s3c" not in str(error.value)


def test_an_unknown_scheme_is_refused_with_what_there_is() -> None:
    for open_it in (open_bus, open_reader):
        with pytest.raises(BadSetting, match=r"redis://host:6379/0, kafka://host:9092"):
            open_it("rabbit://host")


@pytest.mark.parametrize(("scheme", "name"), [("redis", "Redis"), ("kafka", "Kafka")])
async def test_a_refused_connection_says_where_and_what_to_do(scheme: str, name: str) -> None:
    port = free_port()
    text = await said(f"{scheme}://127.0.0.1:{port}", Unavailable)
    assert text == (
        f"{name} at 127.0.0.1:{port} cannot be reached (nothing listens there): start {name} there, or set ART_BUS_URL"
    )
    reader = open_reader(f"{scheme}://127.0.0.1:{port}")
    with pytest.raises(Unavailable, match="nothing listens there"):
        reader.head("trade")
    reader.close()
