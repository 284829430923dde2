"""Log lines: one line each, and no secrets."""

import io
import sys

import pytest

from artery import telemetry


def test_a_log_line_is_one_line_and_names_its_room(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.set_up_logs("info")
    try:
        raise ValueError("first\nsecond")
    except ValueError as error:
        telemetry.logger("ingest").warning("it went wrong", exc_info=error)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "room=ingest" in said
    assert "ValueError: first second" in said
    assert "Traceback" not in said


def test_a_closed_standard_error_costs_the_line_and_not_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    telemetry.set_up_logs("info")
    monkeypatch.setattr(sys, "stderr", closed)
    telemetry.logger("ingest").warning("nobody hears this")
    open_again = io.StringIO()
    monkeypatch.setattr(sys, "stderr", open_again)
    telemetry.logger("ingest").warning("this is heard")
    assert "this is heard" in open_again.getvalue()


def test_the_level_holds_lines_back(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.set_up_logs("warning")
    telemetry.logger("bus").info("quiet")
    telemetry.logger("bus").error("loud")
    said = capsys.readouterr().err
    assert "quiet" not in said
    assert "loud" in said


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("key art_live_abc123.c2VjcmV0c2VjcmV0", "c2VjcmV0c2VjcmV0"),
        ("GET /v1/stream?token=hunter2 HTTP/1.1", "hunter2"),
        ("open http://127.0.0.1:8080/#start=hunter2", "hunter2"),
        ("redis://user:hunter2@host/0", "hunter2"),
        ("redis://:some/thing?or#hunter2@host/0", "hunter2"),
        ("redis://:a@b'c\"d&hunter2@host:6379/0 is away", "hunter2"),
        ("Authorization: Bearer hunter2", "hunter2"),
    ],
)
def test_secrets_never_reach_a_log(text: str, secret: str, capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.set_up_logs("info", as_json=True)
    telemetry.logger("gateway").info("said", text=text)
    said = capsys.readouterr().err
    assert secret not in said
    assert "***" in said


def test_a_port_is_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.set_up_logs("info", as_json=True)
    hint = "write redis://host:6379/0 or kafka://host:9092,host:9093, mail a@b"
    telemetry.logger("bus").info("said", text=hint)
    assert hint in capsys.readouterr().err
