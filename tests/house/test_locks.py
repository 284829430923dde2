"""The locks: exact versions with hashes, and no address of any registry."""

import json
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.tree import ROOT

LOCKS = ("requirements-build.txt", "requirements.txt", "requirements-dev.txt")
_LINE = re.compile(r"([A-Za-z0-9._-]+)(?:\[[a-z0-9,_-]+\])?==([^ ;\\]+)")


def pins(name: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in (ROOT / name).read_text().splitlines():
        if match := _LINE.match(line):
            found.setdefault(canonicalize_name(match[1]), set()).add(match[2])
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_hashes_and_names_no_address(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert "--index-url" not in text
    blocks = re.split(r"\n(?=\S)", text.strip())
    assert blocks
    assert [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_the_lock_of_the_page_names_no_address() -> None:
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "://" in package.get("resolved", "")] == []
    assert [name for name, package in lock["packages"].items() if name and "integrity" not in package] == []


def test_the_lock_of_the_page_is_whole_for_every_platform() -> None:
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text())["packages"]
    wanted = {name for package in packages.values() for name in package.get("optionalDependencies", {})}
    assert wanted
    assert sorted(name for name in wanted if f"node_modules/{name}" not in packages) == []


def test_everything_the_project_asks_for_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runtime = [Requirement(text) for text in project["project"]["dependencies"]]
    dev = [Requirement(text) for text in project["dependency-groups"]["dev"]]
    for wanted, lock in ((runtime, pins("requirements.txt")), (runtime + dev, pins("requirements-dev.txt"))):
        for one in wanted:
            versions = lock.get(canonicalize_name(one.name), set())
            assert versions, f"{one.name} is not locked: run make lock"
            assert all(one.specifier.contains(version) for version in versions), f"{one} is locked as {versions}"


def test_people_and_tests_run_the_same_versions() -> None:
    runtime, dev = pins("requirements.txt"), pins("requirements-dev.txt")
    assert {name: versions for name, versions in runtime.items() if dev.get(name) != versions} == {}
