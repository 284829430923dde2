"""Find a Java that Spark runs on, and start Spark's JVM so that it cannot outlive this process."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from artery.errors import CannotStart

PREFERRED = (17, 21)
SUPPORTED = range(17, 26)
INSTALL = "install Java 17 (on Debian: apt-get install openjdk-17-jre-headless)"
_PLACES = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt/java")
_VERSION = re.compile(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)')
_START_S = 60.0

# What Spark's own launcher adds, so that its launcher (a JVM of its own) need not run.
_PACKAGES = "lang lang.invoke lang.reflect io net nio util util.concurrent util.concurrent.atomic"
_INTERNALS = "jdk.internal.ref sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar"
_OPENED = [f"java.{name}" for name in _PACKAGES.split(" ")] + _INTERNALS.split(" ")
MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "--enable-native-access=ALL-UNNAMED",
)


class Starting(NamedTuple):
    """A JVM that will write where it listens to the file `info`."""

    process: "subprocess.Popen[bytes]"
    info: Path
    log: Path


class Gateway(NamedTuple):
    """Where a JVM waits for Spark's driver."""

    port: int
    secret: str


def find_java(environ: Mapping[str, str] = os.environ, places: Sequence[str] = _PLACES) -> Path:
    """The `java` of a version that Spark runs on, 17 before 21 before others; or `CannotStart`."""
    named = environ.get("JAVA_HOME")
    if named and not (Path(named) / "bin" / "java").is_file():
        raise CannotStart(f"JAVA_HOME is {named}, and there is no Java there: set it right or unset it, or {INSTALL}")
    found = [(version, home) for home in _homes(environ, places) if (version := _version(home))]
    usable = [(version, home) for version, home in found if version in SUPPORTED]
    if usable:
        best = min(usable, key=lambda pair: (PREFERRED.index(pair[0]) if pair[0] in PREFERRED else 9, -pair[0]))
        return best[1] / "bin" / "java"
    if found:
        raise CannotStart(f"Spark needs Java 17 to 25 and finds only {found[0][0]}: {INSTALL}")
    raise CannotStart(f"Spark needs Java and finds none: {INSTALL}")


def start(java: Path, options: Sequence[str], classpath: Sequence[str], log: Path) -> Starting:
    """Start the JVM; it ends when its standard input closes, so also when this process is killed."""
    info = Path(tempfile.mkdtemp(prefix="artery-")) / "gateway"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ |= {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(info), "SPARK_CONNECT_MODE": "0", "MALLOC_ARENA_MAX": "2"}
    environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # or Spark asks the network for this machine's name
    command = [str(java), *MODULES, *options, "-cp", ":".join(classpath)]
    command += ["org.apache.spark.api.python.PythonGatewayServer"]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        # In a group of its own, because Ctrl-C reaches a whole group and the JVM stops when its driver has finished.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environ, process_group=0
        )
    return Starting(process, info, log)


def connected(starting: Starting) -> Gateway:
    """Wait until the JVM says where it listens; or `CannotStart`."""
    process, info, log = starting
    deadline = time.monotonic() + _START_S
    try:
        while not info.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise CannotStart(f"Java did not start ({_last_line(log)}); {log} has the rest")
            time.sleep(0.01)
        content = info.read_bytes()
    finally:
        shutil.rmtree(info.parent, ignore_errors=True)
    return Gateway(int.from_bytes(content[:4], "big"), content[8:].decode())


def stop(process: "subprocess.Popen[bytes]", wait_s: float = 2.0) -> None:
    """Close the JVM's standard input, then insist."""
    if process.stdin:
        process.stdin.close()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _homes(environ: Mapping[str, str], places: Sequence[str]) -> list[Path]:
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    homes = [Path(environ["JAVA_HOME"])] if environ.get("JAVA_HOME") else []
    homes += [Path(on_path).resolve().parent.parent] if on_path else []
    for place in places:
        inside = sorted(Path(place).glob("*")) if Path(place).is_dir() else []
        homes += [home / "Contents/Home" if (home / "Contents/Home").is_dir() else home for home in inside]
    return [home for home in homes if os.access(home / "bin" / "java", os.X_OK)]


def _version(home: Path) -> int:
    """From the file that every Java has; asking `java -version` would take a while."""
    release = home / "release"
    try:
        if release.is_file():
            text = release.read_text(errors="replace")
        else:
            command: list[str | Path] = [home / "bin" / "java", "-version"]
            text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    match = _VERSION.search(text)
    return int(match[1]) if match else 0


def _last_line(log: Path) -> str:
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "no output"
    return lines[-1][:200] if lines else "no output"
