"""A local Spark session that works on a sealed machine: no network, no resolvable host name, no Java of its own.

It also lets streams start concurrently. All streams of a Python source share one map of environment variables, a
`java.util.HashMap`, into which each writes some variables as it starts. If two add them at the same time, the map may
count more entries than it has; that JVM then fails to read any task of the source (`java.io.OptionalDataException`).
Replacing existing entries is harmless, so they are added before the first stream starts. Seen in Spark 4.0 to 4.3.
"""

from __future__ import annotations

import atexit
import logging
import os
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .requirements import find_java, require_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("flightlog.spark")

REPLACED_BY_STREAMS = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "",
    "SPARK_BUFFER_SIZE": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",  # not by 4.0, which does not read it either
}
"""Variables that Spark sets for every Python process that it starts, whatever their values were."""

AUTOLOAD_MODULE = "pyspark_flightlog"

# sun_path holds 108 bytes with its closing zero; Spark's socket names below its folder take `/.UUID.sock`, 43 of them.
SOCKET_DIRECTORY_BYTES_MAX = 108 - 1 - 43

# Spark's own defaults greet with six lines before a setting of the session can quieten them.
LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


def session(
    app_name: str = "flightlog", *, master: str = "local[*]", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The running Spark session, or a new local one in which `format("flightlog")` works.

    `conf` overrides the settings chosen here. If a session is already running, only settings that Spark can change at
    runtime take effect. Workers run this Python. Nothing listens beyond 127.0.0.1, scratch files are in one temporary
    folder that is removed when the process ends, and Spark's own log shows errors only (change that with
    `spark.sparkContext.setLogLevel`).

    Raises `MissingExtraError` if pyspark (4.0 or newer) or pyarrow is missing, and `MissingJavaError`.
    """
    require_spark("a Spark session")
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        spark = _configured(SparkSession.builder, conf or {}).getOrCreate()
    else:
        scratch = _scratch_directory()
        settings = _settings(scratch) | dict(conf or {})
        with _launch_environment(scratch):
            spark = _configured(SparkSession.builder.appName(app_name).master(master), settings).getOrCreate()
    _register_where_spark_cannot_find_it(spark)
    if isinstance(spark, SparkSession):  # not one of Spark Connect, whose JVM is elsewhere
        _allow_concurrent_stream_starts(spark)
    return spark


def queues(path: str | os.PathLike[str] | Sequence[str], **options: str) -> DataFrame:
    """The queues of one or more stores as a DataFrame: a row for each, from its entries alone. docs/spark.md has the
    columns. `options` as `subscribe="orders"`, `includeInternal="true"`.

    Uses the running Spark session, or starts a local one. Raises as `session`, and as `load` does for a wrong path.
    """
    reader = session().read.format("flightlog").options(table="queues", **options)
    return reader.load(os.fspath(path) if isinstance(path, (str, os.PathLike)) else list(path))


def _scratch_directory() -> Path:
    scratch = Path(tempfile.mkdtemp(prefix="flightlog-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return scratch


def _settings(scratch: Path) -> dict[str, str]:
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_write_log_settings(scratch).as_uri()}",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # Spark 4.0 does not know these two and ignores them. Filters on topics and times reach the source by the first.
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if len(os.fsencode(scratch)) <= SOCKET_DIRECTORY_BYTES_MAX:
        settings["spark.python.unix.domain.socket.dir"] = str(scratch)
    else:
        settings["spark.python.unix.domain.socket.enabled"] = "false"
    return settings


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _write_log_settings(scratch: Path) -> Path:
    path = scratch / "log4j2.properties"
    path.write_text(LOG_SETTINGS)
    return path


@contextmanager
def _launch_environment(scratch: Path) -> Iterator[None]:
    """The environment while the JVM starts. The JVM keeps it; the process gets its own back."""
    wanted = {
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    if not _spark_finds_the_source():
        wanted["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_listed(scratch)), os.environ.get("PYTHONPATH")]))
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _spark_finds_the_source() -> bool:
    """Whether our module is listed on `sys.path`, where Spark looks for sources. An editable install is not."""
    return any(module.name == AUTOLOAD_MODULE for module in pkgutil.iter_modules())


def _listed(scratch: Path) -> Path:
    """A folder for the path of Spark's workers, in which our module is listed. The worker that looks for sources then
    imports it, and is quiet when it is ended (entry.py)."""
    folder = scratch / "modules"
    folder.mkdir()
    (folder / AUTOLOAD_MODULE).symlink_to(Path(__file__).parent / "autoload")
    return folder


def _register_where_spark_cannot_find_it(spark: SparkSession) -> None:
    if _spark_finds_the_source():
        return
    from pyspark.errors import AnalysisException

    from .source import DefaultSource

    try:
        spark.dataSource.register(DefaultSource)
    except AnalysisException as e:  # Spark 4.0 replaces none that its workers list, which is this one (`_listed`)
        if e.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _allow_concurrent_stream_starts(spark: SparkSession) -> None:
    """Allow streams of our source to start concurrently in this session."""
    from py4j.protocol import Py4JError

    try:
        sources = spark._jsparkSession.sessionState().dataSourceManager()
        environment = sources.lookupDataSource("flightlog").dataSourceCls().envVars()
        for name, value in REPLACED_BY_STREAMS.items():
            environment.putIfAbsent(name, value)
    except Py4JError as error:  # none of these names is Spark's public API
        log.warning(
            "start streams one after another: this Spark hides the map that they share", extra={"found": str(error)}
        )
