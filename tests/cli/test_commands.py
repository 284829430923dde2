"""The command line: every command explains itself, errors are one sentence, programs get JSON."""

import json
from pathlib import Path

import pytest

from tests.cli.command import artery

COMMANDS = ("up", "open", "run", "doctor", "selftest", "settings", "tail", "history", "indicators", "keys", "bus")


def test_the_help_lists_every_command(tmp_path: Path) -> None:
    done = artery("--help", folder=tmp_path)
    assert done.code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in done.out
    assert "..." not in done.out.split("Commands:")[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_answer_programs(name: str, tmp_path: Path) -> None:
    done = artery(name, "--help", folder=tmp_path)
    assert done.code == 0
    assert "--json" in done.out


@pytest.mark.parametrize("words", [("fly",), ("up", "--fast"), ("tail",), ("keys", "burn")])
def test_what_cannot_be_understood_gets_a_hint_and_code_2(words: tuple[str, ...], tmp_path: Path) -> None:
    done = artery(*words, folder=tmp_path)
    assert done.code == 2
    assert "-h' for help" in done.err
    assert "Traceback" not in done.err


def test_an_unknown_setting_is_refused_by_every_command(tmp_path: Path) -> None:
    for words in (("up",), ("settings",), ("run", "sim")):
        done = artery(*words, folder=tmp_path, ART_GATEWAY_PROT="1")
        assert done.code == 1
        assert done.sentence == "ART_GATEWAY_PROT is not a setting; did you mean ART_GATEWAY_PORT?"


def test_an_unknown_service_or_venue_is_refused(tmp_path: Path) -> None:
    refused = artery("run", "tea", folder=tmp_path).sentence
    assert refused.startswith("'tea' is not a service; there are sim, serve, ")
    assert refused.endswith(" pipeline")
    assert "there is hyperliquid" in artery("up", "--live", "moon", folder=tmp_path).sentence


@pytest.mark.parametrize(
    "words", [("open",), ("tail", "SIM:BTC"), ("history", "SIM:BTC", "1m"), ("indicators", "SIM:BTC")]
)
def test_with_nothing_running_it_says_how_to_start(words: tuple[str, ...], tmp_path: Path) -> None:
    done = artery(*words, folder=tmp_path)
    assert done.code == 1
    assert done.sentence == f"no Artery runs on {tmp_path}; start it with `artery up`"
    assert list(tmp_path.iterdir()) == []


def test_settings_are_listed_with_secrets_masked(tmp_path: Path) -> None:
    done = artery("settings", folder=tmp_path, ART_BUS_URL="redis://user:hunter2@host/0")
    assert done.code == 0
    assert "ART_GATEWAY_PORT" in done.out
    assert "hunter2" not in done.out
    rows = json.loads(artery("settings", "--json", folder=tmp_path, ART_BUS_URL="redis://:hunter2@host").out)
    values = {row["name"]: row["value"] for row in rows}
    assert values["ART_DATA_DIR"] == str(tmp_path)
    assert values["ART_BUS_URL"] == "***"


def test_doctor_finds_nothing_missing_where_tests_run(tmp_path: Path) -> None:
    done = artery("doctor", "--json", folder=tmp_path)
    findings = json.loads(done.out)
    assert [one for one in findings["findings"] if one["state"] == "missing"] == []
    assert findings["ok"]
    assert done.code == 0
    assert list(tmp_path.iterdir()) == []


def test_doctor_names_what_is_missing_and_what_to_do(tmp_path: Path) -> None:
    done = artery("doctor", folder=tmp_path, JAVA_HOME=str(tmp_path / "nowhere"))
    assert done.code == 1
    assert "Missing: Java." in done.out
    assert "openjdk-17-jre-headless" in " ".join(done.out.split())


def test_keys_are_made_listed_and_revoked(tmp_path: Path) -> None:
    made = json.loads(artery("keys", "create", "ada", "--scopes", "read", "--json", folder=tmp_path).out)
    assert made["key"].startswith(f"art_live_{made['id']}.")
    listed = json.loads(artery("keys", "--json", folder=tmp_path).out)
    assert [(row["id"], row["user"], row["scopes"], row["revoked"]) for row in listed] == [
        (made["id"], "ada", "read", "")
    ]
    assert artery("keys", "expire", made["id"], "--after", "1h", folder=tmp_path).out.startswith("The key")
    assert json.loads(artery("keys", "expire", made["id"], "--after", "1d", "--json", folder=tmp_path).out)["expires"]
    assert artery("keys", "revoke", made["id"], folder=tmp_path).code == 0
    assert json.loads(artery("keys", "list", "--json", folder=tmp_path).out)[0]["revoked"]
    assert made["key"].split(".")[1] not in artery("keys", folder=tmp_path).out
    assert "nobody" in artery("keys", "revoke", "nobody", folder=tmp_path).sentence
