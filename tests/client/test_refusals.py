"""A gateway that answers with something else than a WebSocket is understood."""

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Response

from artery.client.refusals import refusal, wait_s
from artery.errors import ArteryError, NotAllowed, TooMuch, Unavailable


def answer(status: int, body: bytes = b"", **headers: str) -> Response:
    return Response(status, "", Headers({name.replace("_", "-"): value for name, value in headers.items()}), body)


@pytest.mark.parametrize(
    ("status", "retry_after", "wait"),
    [(503, "1", 1.0), (503, "900", 60.0), (429, "2", 2.0), (502, "soon", 0.0), (403, "1", None), (404, "", None)],
)
def test_only_what_may_pass_is_worth_another_try_and_not_before_it_was_told(
    status: int, retry_after: str, wait: float | None
) -> None:
    assert wait_s(answer(status, Retry_After=retry_after)) == wait
    assert wait_s(answer(503)) == 0.0


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (403, b'{"error":{"code":"forbidden","message":"not that Host"}}', NotAllowed, "not that Host"),
        (503, b'{"error":{"code":"rate_limited","message":"too many"}}', TooMuch, "too many"),
        (404, b"<html>", Unavailable, "is it a gateway's address"),
        (403, b'{"error":1}', NotAllowed, "answered 403"),
    ],
)
def test_the_gateways_own_words_are_said(status: int, body: bytes, kind: type[ArteryError], words: str) -> None:
    found = refusal(answer(status, body), "http://here")
    assert type(found) is kind
    assert words in str(found)
