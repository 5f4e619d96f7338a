"""A local Spark session that works on a sealed machine: no network, no resolvable host name, no Java of its own."""

from __future__ import annotations

import atexit
import os
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .java import find_java
from .stream.streams_at_once import let_streams_begin_at_once
from .versions import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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

    `conf` is laid over the settings chosen here. Where a session runs already, only those of its settings can change
    that Spark lets change. Workers run this very Python. Nothing listens beyond 127.0.0.1, scratch files live in one
    temporary folder that goes with the process, and Spark's own log shows errors only
    (`spark.sparkContext.setLogLevel` says otherwise).

    Raises `MissingExtraError` where pyspark (4.0 or newer) or pyarrow is missing, and `MissingJavaError`.
    """
    require_spark("a Spark session")
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        spark = _configured(SparkSession.builder, conf or {}).getOrCreate()
    else:
        settings = _settings(_scratch_directory()) | dict(conf or {})
        with _launch_environment():
            spark = _configured(SparkSession.builder.appName(app_name).master(master), settings).getOrCreate()
    _register_where_spark_cannot_find_it(spark)
    if isinstance(spark, SparkSession):  # not one of Spark Connect, whose JVM is elsewhere
        let_streams_begin_at_once(spark)
    return spark


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
def _launch_environment() -> Iterator[None]:
    """The environment while the JVM starts; it keeps what it saw, and the process gets its own back."""
    wanted = {
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
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


def _register_where_spark_cannot_find_it(spark: SparkSession) -> None:
    """Spark lists the modules on `sys.path`; an editable install answers imports without being listed there."""
    if any(module.name == AUTOLOAD_MODULE for module in pkgutil.iter_modules()):
        return
    from .source import DefaultSource

    spark.dataSource.register(DefaultSource)
