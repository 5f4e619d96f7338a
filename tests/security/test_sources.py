"""House rules of safety over the package's sources: nothing turns stored bytes into code, nothing runs a shell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_INSTALLED = {"tests", "benches", "docs", "build", "dist", "packaging"}
FORBIDDEN_MODULES = {
    "pickle",
    "cPickle",
    "cloudpickle",
    "dill",
    "joblib",
    "marshal",
    "shelve",
    "code",
    "codeop",
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_ATTRIBUTES = {("os", "system"), ("os", "popen"), ("builtins", "eval"), ("builtins", "exec")}
YAML_CALLS = {"compose"}
"""The call of PyYAML that makes nodes of a text, and no object of whatever type the text names."""
FORBIDDEN_KEYWORDS = {"shell", "allow_pickle"}


def sources(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if not NOT_INSTALLED.intersection(parts) and not any(part.startswith(".") for part in parts):
            yield path


def offences(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name != "yaml" or alias.asname]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if not node.level else []
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
                yield f"line {node.lineno}: {node.func.id}()"
            room, _, called = ast.unparse(node.func).partition(".")
            if room == "yaml" and "." not in called and called not in YAML_CALLS:
                yield f"line {node.lineno}: yaml.{called}()"
            for keyword in node.keywords:
                is_true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                if is_true and keyword.arg in FORBIDDEN_KEYWORDS:
                    yield f"line {node.lineno}: {keyword.arg}=True"
            continue
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in FORBIDDEN_ATTRIBUTES:
                yield f"line {node.lineno}: {node.value.id}.{node.attr}"
            continue
        else:
            continue
        for name in names:
            if name.split(".")[0] in FORBIDDEN_MODULES | {"yaml"}:
                yield f"line {node.lineno}: imports {name}"


def test_nothing_makes_code_of_data() -> None:
    """No pickle, no eval. What Spark sends between its own processes is pickled by Spark: the plan of a scan, never
    anything that was read from a store."""
    files = list(sources(ROOT))
    assert len(files) > 100
    found = {str(path.relative_to(ROOT)): list(offences(path.read_text())) for path in files}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import marshal as m",
        "eval('1')",
        "x = [exec(t) for t in y]",
        "import os\nos.system('x')",
        "subprocess.run('x', shell=True)",
        "np.load(f, allow_pickle=True)",
        "def f():\n    import dill.source",
        "import yaml as y",
        "from yaml import load",
        "import yaml\nyaml.load(f, yaml.SafeLoader)",
    ],
)
def test_the_rule_sees_it(text: str) -> None:
    assert list(offences(text))


def test_the_rule_leaves_the_rest_alone() -> None:
    assert not list(offences("import re\nre.compile('x')\nself.eval(1)\nsubprocess.run(['x'], shell=False)\n"))
    assert not list(offences("import yaml\nyaml.compose(text, yaml.SafeLoader)\n"))
