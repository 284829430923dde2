"""The only file that builds the SparkSession."""

import hashlib
import logging
import os
import shutil
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import artery
from artery.errors import CannotStart
from artery.lake.places import NAME, jdbc_of, on_server, warehouse
from artery.pipeline import java
from artery.settings import Settings

_HERE = Path(__file__).parent
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_PYTHON_RESERVED_MB = 64

# To write and compile Java for a small batch takes longer than the batch does; a large one is done in half the time.
_SMALL = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_LARGE = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


def configuration(settings: Settings) -> dict[str, str]:
    """Every Spark setting that differs from Spark's own default, but for the catalog's address."""
    folder = settings.folder
    catalog = f"spark.sql.catalog.{NAME}"
    return (_SMALL if is_local(settings) else _cluster(settings)) | {
        "spark.app.name": "artery",
        "spark.master": settings.pipeline.master,
        "spark.driver.host": "127.0.0.1" if is_local(settings) else settings.pipeline.host,
        "spark.driver.bindAddress": "127.0.0.1" if is_local(settings) else settings.pipeline.host,
        "spark.local.dir": str(local_folder(settings)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "5",
        "spark.sql.ui.explainMode": "simple",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": f"file://{_HERE / 'pools.xml'}",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "run" / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        # Neither is of use here; but with either Spark makes a new session, for which it starts a Python, each time
        # that a batch is kept to be read twice.
        "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
        "spark.sql.adaptive.applyFinalStageShuffleOptimizations": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.numRecentProgressUpdates": "3",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.python.daemon.module": "artery.pipeline.daemon",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.iceberg.check-nullability": "false",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": warehouse(folder),
        f"{catalog}.cache-enabled": "false",
        # Spark refuses a heap below 450 MB unless it is told to keep less of it for itself.
        "spark.testing.reservedMemory": str(_PYTHON_RESERVED_MB * 1024 * 1024),
    }


def _cluster(settings: Settings) -> dict[str, str]:
    """What executors on other machines need: the same packages and jars at the same paths as the driver's."""
    jars = ":".join(str(jar) for jar in further_jars(settings))
    options = "-Xss16m -XX:+UseSerialGC"
    options += f" -Dlog4j2.configurationFile=file://{_HERE / 'log4j2-executor.properties'}"
    return {
        "spark.executor.memory": f"{settings.pipeline.executor_mb}m",
        "spark.executor.cores": "1",
        "spark.executor.extraClassPath": jars,
        "spark.executor.extraJavaOptions": options,
        # A worker that dies takes its tasks with it; they are tried elsewhere, and soon.
        "spark.network.timeout": "60s",
        "spark.task.maxFailures": "8",
    }


def secret_configuration(settings: Settings) -> dict[str, str]:
    """The catalog's address and password, which must not stand among a process's arguments."""
    found = jdbc_of(settings.folder, settings.lake.catalog_url)
    return {f"spark.sql.catalog.{NAME}.{name}": value for name, value in found.items()}


def is_local(settings: Settings) -> bool:
    """Whether Spark runs in the driver's own process alone."""
    return settings.pipeline.master.startswith("local")


def suit(session: Any, *, large: bool) -> None:
    """Have the next batches of this session's query computed as suits their size; a cluster's are always large."""
    if session.conf.get("spark.master").startswith("local"):
        for name, value in (_LARGE if large else _SMALL).items():
            session.conf.set(name, value)


def local_folder(settings: Settings) -> Path:
    """Scratch of this process alone: another driver of the same data folder has its own."""
    return settings.folder / "run" / "spark" / f"{socket.gethostname()}-{os.getpid()}"


def jvm_options(settings: Settings) -> list[str]:
    """A small heap that is collected by one thread: this service is mostly idle."""
    options = [f"-Xmx{settings.pipeline.heap_mb}m", "-Xms64m", "-Xss16m", "-XX:+UseSerialGC"]
    options += ["-XX:ReservedCodeCacheSize=160m", "-XX:MaxMetaspaceSize=320m"]
    options += ["-XX:-UsePerfData", "-Xshare:auto", "-XX:+ExitOnOutOfMemoryError"]
    options += [f"-Dlog4j2.configurationFile=file://{_HERE / 'log4j2.properties'}"]
    options += [f"-Dartery.log={settings.folder / 'logs' / 'spark.log'}"]
    return options + [f"-D{name}={value}" for name, value in configuration(settings).items()]


def jars_folder(settings: Settings) -> Path:
    """Where the jars that pyspark does not bring are."""
    return Path(settings.pipeline.jars) if settings.pipeline.jars else _root() / ".cache" / "jars" / "spark"


def classpath(settings: Settings) -> list[str]:
    """Spark's jars, then ours."""
    return [f"{spark_home()}/jars/*", *map(str, further_jars(settings))]


def further_jars(settings: Settings) -> list[Path]:
    """The jars that pyspark does not bring; or `CannotStart` if they were not fetched."""
    jars = sorted(jars_folder(settings).glob("*.jar"))
    if not jars:
        raise CannotStart(f"Spark's jars are not in {jars_folder(settings)}: run scripts/jars")
    if on_server(settings.lake.catalog_url) and not any(jar.name.startswith("postgresql") for jar in jars):
        driver = sorted((jars_folder(settings).parent / "postgres").glob("*.jar"))
        if not driver:
            raise CannotStart("PostgreSQL's driver for Spark is missing: run scripts/jars postgres")
        jars += driver
    return jars


def spark_home() -> Path:
    """Where pyspark is, without importing it."""
    from importlib.util import find_spec

    found = find_spec("pyspark")
    if found is None or not found.origin:
        raise CannotStart("pyspark is not installed: run scripts/setup")
    return Path(found.origin).parent


def archive_file(settings: Settings, found: Path) -> Path:
    """Where the classes are kept ready for this Java and these jars (see `archive.py`)."""
    jars = [*sorted((spark_home() / "jars").glob("*.jar")), *sorted(jars_folder(settings).glob("*.jar"))]
    stated = [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in (found.resolve(), *jars)]
    name = hashlib.sha256("\n".join(stated).encode()).hexdigest()[:16]
    return jars_folder(settings).parent / f"classes-{name}.jsa"


class Spark:
    """The JVM, and the session once it is there. Starting is in two steps, so that others can work meanwhile."""

    def __init__(self, settings: Settings, archive_to: Path | None = None) -> None:
        found = java.find_java()
        archive = archive_file(settings, found)
        options = jvm_options(settings)
        if archive_to:
            options.append(f"-XX:ArchiveClassesAtExit={archive_to}")
        elif archive.exists():
            # Mapped where it was made for, so that only the pages that are used take memory.
            options += ["-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"]
            options += [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        _sweep(local_folder(settings).parent)
        self._secret = secret_configuration(settings)
        self._jvm = java.start(found, options, classpath(settings), settings.folder / "logs" / "java.log")

    def session(self) -> Any:
        """Import pyspark while the JVM starts, wait for the JVM, and connect."""
        from pyspark.sql import SparkSession

        from artery.pipeline.source import BarsSource, RowsSource

        _silence()
        gateway = java.connected(self._jvm)
        joined = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.secret}
        os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home())} | joined
        try:
            builder = SparkSession.builder
            for name, value in self._secret.items():
                builder = builder.config(name, value)
            spark = builder.getOrCreate()
        finally:
            for name in joined:
                del os.environ[name]
        spark.dataSource.register(BarsSource)
        spark.dataSource.register(RowsSource)
        return spark

    def let_go(self) -> None:
        """End the helpers that Spark needs only to start a query; it would start them again."""
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.pid and b"pyspark.sql.worker." in (path / "cmdline").read_bytes():
                    os.kill(int(path.name), signal.SIGTERM)

    @property
    def pid(self) -> int:
        return self._jvm.process.pid

    def alive(self) -> bool:
        return self._jvm.process.poll() is None

    def stop(self, wait_s: float = 2.0) -> None:
        """End the JVM and with it every worker."""
        java.stop(self._jvm.process, wait_s)


def _sweep(scratch: Path) -> None:
    """Remove what drivers of this machine that have ended left behind."""
    for folder in scratch.glob(f"{socket.gethostname()}-*"):
        pid = folder.name.rpartition("-")[2]
        if pid == str(os.getpid()) or not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _silence() -> None:
    """When Java ends, each thread that talks to it would print a traceback; we say it ourselves, in one line."""
    from pyspark.accumulators import AccumulatorTCPServer

    logging.getLogger().addHandler(logging.NullHandler())
    AccumulatorTCPServer.handle_error = lambda *_: None


def _root() -> Path:
    return Path(artery.__file__).parents[2]
