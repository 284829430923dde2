"""Who asked by a foreign name or from a foreign page is not let in."""

import pytest

from artery.gateway.access import Credential
from artery.gateway.door import Door, credential

DOOR = Door("127.0.0.1", ["artery.example"], ["https://desk.example"])


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8080", True),
        ("localhost", True),
        ("LOCALHOST:9", True),
        ("[::1]:8080", True),
        ("artery.example", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost:8080@evil.example", False),
        ("localhost evil", False),
        ("localhost:abc", False),
        ("", False),
    ],
)
def test_only_own_names_are_answered_to(host: str, allowed: bool) -> None:
    assert DOOR.host_allowed(host) is allowed


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("http://localhost:8080", True),
        ("https://desk.example", True),
        ("http://localhost:8081", False),
        ("http://evil.example", False),
        ("null", False),
        ("", False),
        ("http://localhost:8080.evil.example", False),
    ],
)
def test_only_own_pages_and_named_ones_may_connect(origin: str | None, allowed: bool) -> None:
    assert DOOR.origin_allowed(origin, "localhost:8080") is allowed


def test_a_wide_open_address_is_not_a_name() -> None:
    assert not Door("0.0.0.0").host_allowed("0.0.0.0")
    assert Door("10.0.0.5").host_allowed("10.0.0.5:8080")
    assert Door("fe80::1").host_allowed("[fe80::1]:80")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"authorization": "Bearer k1"}, Credential(key="k1")),
        ({"authorization": "bearer  k1 ", "query": "token=k2"}, Credential(key="k1")),
        ({"authorization": "Basic abc", "cookies": "c=v"}, Credential(key="-")),
        ({"protocols": ["artery.v1", "bearer.k3"]}, Credential(key="k3")),
        ({"query": "a=1&token=k%2D4"}, Credential(key="k-4")),
        ({"cookies": 'x=1; c="v"; y'}, Credential(cookie="v")),
        ({"cookies": "d=v"}, Credential()),
        ({"query": "&".join(["token=x"] * 500)}, Credential(key="-")),
        ({}, Credential()),
    ],
)
def test_a_credential_is_taken_from_the_first_place_that_has_one(given: dict[str, str], shown: Credential) -> None:
    assert credential(cookie_name="c", **given) == shown  # type: ignore[arg-type]
