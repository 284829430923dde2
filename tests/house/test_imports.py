"""Imports point one way, every room is known, and drivers stay where they belong."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import ROOT, SOURCE, python_files

DRIVERS = {
    "pyspark": {"pipeline"},
    "py4j": {"pipeline"},
    "pyiceberg": {"lake", "pipeline"},
    "sqlalchemy": {"lake", "pipeline"},
    "zmq": {"wire", "relay"},
    "redis": {"bus", "live", "store"},
    "confluent_kafka": {"bus", "pipeline"},
    "sqlite3": {"bus", "store"},
    "starlette": {"gateway"},
    "uvicorn": {"gateway"},
    "typer": {"cli"},
    "rich": {"cli"},
    "structlog": {"telemetry.py"},
    "prometheus_client": {"telemetry.py", "gateway"},
}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_drivers_are_imported_only_in_their_rooms() -> None:
    strays = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in python_files(SOURCE)
        for name in sorted(set(imported(path)))
        if name in DRIVERS and path.relative_to(SOURCE).parts[0] not in DRIVERS[name]
    ]
    assert strays == []


def test_only_the_command_line_reads_settings_from_the_environment() -> None:
    pattern = re.compile(r"""(environ|getenv)\W*(get)?\W*["']ART_|load\(os\.environ""")
    readers = [str(path.relative_to(SOURCE)) for path in python_files(SOURCE) if pattern.search(path.read_text())]
    assert [name for name in readers if not name.startswith("cli/")] == []
    assert readers != []


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def copy(folder: Path) -> Path:
    shutil.copytree(SOURCE, folder / "src" / "artery", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", folder)
    return folder / "src" / "artery"


def test_the_layers_hold() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


def test_an_unknown_room_is_refused(tmp_path: Path) -> None:
    room = copy(tmp_path) / "helpers"
    room.mkdir()
    (room / "__init__.py").write_text('"""A room that nobody planned."""\n')
    done = lint(tmp_path)
    assert done.returncode == 1
    assert "helpers" in done.stdout


def test_a_service_that_imports_another_is_refused(tmp_path: Path) -> None:
    (copy(tmp_path) / "gateway" / "short_cut.py").write_text("from artery.ingest import stamp\n")
    done = lint(tmp_path)
    assert done.returncode == 1
    assert "artery.gateway.short_cut -> artery.ingest.stamp" in done.stdout


def test_a_look_at_the_log_loads_neither_the_lake_nor_a_server() -> None:
    heavy = "{'pyarrow', 'pyiceberg', 'pyspark', 'starlette', 'redis', 'confluent_kafka', 'zmq'}"
    code = f"import sys, artery.cli.main, artery.cli.bus_lines, artery.app.bus_view; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
