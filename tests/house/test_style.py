"""Habits that a machine can check."""

import ast
import re

from tests.house.tree import ROOT, SOURCE, python_files

FILE_LINES_MAX, FUNCTION_LINES_MAX = 400, 70
FORBIDDEN_NAMES = {"utils", "common", "helpers", "core", "manager"}


def test_files_and_functions_stay_small() -> None:
    large: list[str] = []
    for path in python_files(SOURCE):
        text = path.read_text()
        if len(text.splitlines()) > FILE_LINES_MAX:
            large.append(f"{path.relative_to(ROOT)}: {len(text.splitlines())} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    large.append(f"{path.relative_to(ROOT)}: {node.name} has {lines} lines")
    assert large == []


def test_nothing_is_left_for_later() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX)\b|raise NotImplementedError")
    assert [str(path) for path in python_files(SOURCE) if pattern.search(path.read_text())] == []


def test_every_module_says_in_a_sentence_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in python_files(SOURCE)
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_no_room_is_a_drawer_for_everything() -> None:
    names = {part for path in python_files(SOURCE) for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert not names & FORBIDDEN_NAMES


def test_tests_use_real_parts_and_none_is_left_out() -> None:
    pattern = re.compile(
        "unittest" + r"\.mock|Magic" + "Mock|Async" + r"Mock|pytest\.sk" + r"ip|mark\.(xf" + "ail|sk" + "ip)"
    )
    assert [str(path) for path in python_files(ROOT / "tests") if pattern.search(path.read_text())] == []
