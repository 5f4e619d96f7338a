"""Hooks of mkdocs: what the site has besides docs/.

- The documents of the repository's root are pages too; README.md is the first one.
- The API reference is read from the package's sources. The package is the root of the checkout, with its environments
  and tests, so its modules alone are copied to `.dev/docs/flightlog`.
- Methods that only check and delegate have the docstring of what they call by `@documented_by`. It is written out in
  the copies, because mkdocstrings does not run the code.
"""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import textwrap
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

DOCUMENTED = re.compile(r"documented_by\((.*)\)")
ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / ".dev" / "docs"
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
}


def on_startup(command: str, dirty: bool) -> None:
    """Copy the package. Not later: mkdocstrings looks for it before the configuration is complete."""
    shutil.rmtree(SOURCES, ignore_errors=True)
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    for package in packages:
        top, *rooms = package.split(".")
        if top == "flightlog":
            target = SOURCES.joinpath(top, *rooms)
            target.mkdir(parents=True)
            for module in ROOT.joinpath(*rooms).glob("*.py*"):
                if module.is_file():  # a run of pytest leaves the folder .pytest_cache
                    shutil.copyfile(module, target / module.name)
    modules = [*SOURCES.rglob("*.py")]
    documented = {name: text for module in modules for name, text in docstrings(module).items()}
    for module in modules:
        write_out(module, documented)


def docstrings(module: Path) -> dict[str, str]:
    """The docstrings of functions and methods, by `function` and `Class.method`; `@Class.other` for one that has the
    docstring of another one."""
    found = {}
    tree = ast.parse(module.read_text())
    classes: list[tuple[str, ast.Module | ast.ClassDef]] = [
        ("", tree),
        *((f"{each.name}.", each) for each in tree.body if isinstance(each, ast.ClassDef)),
    ]
    for prefix, owner in classes:
        for each in owner.body:
            if isinstance(each, ast.FunctionDef):
                source = next(
                    (text for text in map(ast.unparse, each.decorator_list) if DOCUMENTED.fullmatch(text)), ""
                )
                text = DOCUMENTED.sub(r"@\1", source) or ast.get_docstring(each, clean=False)
                if text:
                    found[prefix + each.name] = text
    return found


def write_out(module: Path, documented: dict[str, str]) -> None:
    """Give the methods of a copied module the docstrings that they have by `@documented_by`."""
    text = module.read_text()
    lines = text.splitlines(keepends=True)
    functions = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef)]
    for each in sorted(functions, key=lambda function: -function.lineno):
        for source in filter(DOCUMENTED.fullmatch, map(ast.unparse, each.decorator_list)):
            docstring = DOCUMENTED.sub(r"@\1", source)
            while docstring.startswith("@"):
                docstring = documented[docstring[1:]]
            quoted = f'"""{inspect.cleandoc(docstring)}"""\n'
            lines.insert(each.body[0].lineno - 1, textwrap.indent(quoted, " " * each.body[0].col_offset))
    module.write_text("".join(lines))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the root's documents, with links as they are seen from docs/."""
    for name, page in ROOT_PAGES.items():
        text = (ROOT / name).read_text().replace("](docs/", "](").replace("](README.md", "](index.md")
        files.append(File.generated(config, page, content=text))
    return files
