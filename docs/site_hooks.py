"""Hooks of mkdocs: what the site has besides docs/.

- The documents of the repository's root are pages too; README.md is the first one.
- The API reference is read from the package's sources. The package is the root of the checkout, with its environments
  and tests, so its modules alone are copied to `.dev/docs/flightlog`.
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

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
                shutil.copyfile(module, target / module.name)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the root's documents, with links as they are seen from docs/."""
    for name, page in ROOT_PAGES.items():
        text = (ROOT / name).read_text().replace("](docs/", "](").replace("](README.md", "](index.md")
        files.append(File.generated(config, page, content=text))
    return files
