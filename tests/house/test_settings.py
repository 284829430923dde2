"""Settings: what is unknown or cannot be used is refused with a sentence that helps."""

import pytest

from artery.errors import BadSetting
from artery.settings import Settings, load


def test_defaults_need_nothing() -> None:
    assert load({"PATH": "/bin", "ARTERY_ELSE": "x"}) == Settings()


def test_an_unknown_name_is_refused_with_the_nearest_right_one() -> None:
    with pytest.raises(BadSetting, match="ART_GATEWAY_PROT is not a setting; did you mean ART_GATEWAY_PORT"):
        load({"ART_GATEWAY_PROT": "1"})
    with pytest.raises(BadSetting, match="ART_XYZZY_QQ is not a setting"):
        load({"ART_XYZZY_QQ": "1"})


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("ART_GATEWAY_PORT", "eighty", "must be a whole number"),
        ("ART_GATEWAY_PORT", "-1", "must not be below zero"),
        ("ART_SIM_TRADES_PER_S", "nan", "must not be below zero"),
        ("ART_SIM_TRADES_PER_S", "inf", "must not be below zero"),
        ("ART_SIM_TRADES_PER_S", "many", "must be a number"),
        ("ART_LOG_JSON", "maybe", "must be on or off"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(name: str, text: str, reason: str) -> None:
    with pytest.raises(BadSetting, match=f"{name} {reason}"):
        load({name: text})


@pytest.mark.parametrize(("text", "value"), [("on", True), ("TRUE", True), ("1", True), ("off", False), ("no", False)])
def test_on_and_off_have_several_words(text: str, value: bool) -> None:
    assert load({"ART_STREAM_WORKERS": text}).stream.workers is value


def test_another_process_gets_the_same_settings() -> None:
    changed = Settings().with_(
        ingest={"markets": ("BTC", "ETH")}, stream={"workers": False}, sim={"trades_per_s": 2.5}, gateway={"port": 0}
    )
    assert load(changed.environment()) == changed
    assert "ART_LOG_LEVEL" not in changed.environment()


def test_simulated_and_real_data_have_folders_of_their_own() -> None:
    real = Settings().with_(ingest={"provider": "hyperliquid_perp"})
    assert Settings().simulated
    assert not real.simulated
    assert real.folder != Settings().folder


def test_every_setting_says_what_it_means() -> None:
    rows = list(Settings().rows())
    assert len(rows) > 20
    assert all(doc for *_, doc, _ in rows)
