"""Fuzzing guided by coverage, with atheris (the extra `fuzz`), until it is stopped or finds something:

    run_files.py TARGET [FOLDER] [-max_total_time=60 ...]

New inputs go to FOLDER, a temporary one by default; options with a dash are libFuzzer's. An input that breaks a promise
is left where `-artifact_prefix` says, and its bytes belong into tests/fuzz/corpus/TARGET/ once the cause is mended.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import tempfile
from pathlib import Path

import atheris


def main() -> None:
    name, *rest = sys.argv[1:]
    folders = [each for each in rest if not each.startswith("-")]
    folder = Path(folders[0] if folders else tempfile.mkdtemp(prefix=f"corpus-{name}-"))
    folder.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["flightlog"]):
        path = Path(__file__).parents[1] / "support" / "fuzzing.py"
        spec = importlib.util.spec_from_file_location("flightlog_tests_support_fuzzing", path)
        assert spec is not None and spec.loader is not None
        fuzzing = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(fuzzing)
        target = fuzzing.load_target(name)
    logging.disable()
    for number, data in enumerate(target.seeds() + fuzzing.corpus(name)):
        (folder / f"seed-{number}").write_bytes(data)
    options = ["-max_len=8192", "-timeout=60", "-rss_limit_mb=2048", *(each for each in rest if each.startswith("-"))]
    atheris.Setup([sys.argv[0], *options, str(folder)], target.one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
