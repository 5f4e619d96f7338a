"""What `flightlog --version` prints. Needs the core alone."""

from __future__ import annotations

from importlib import import_module


def version_text() -> str:
    """Version, kernel and location of the package."""
    package = import_module("..", __package__)
    kernel = {"c": "C kernel", "pure": "pure Python kernel"}[package.kernel]
    return f"flightlog {package.__version__} ({kernel}) from {package.__path__[0]}"
