"""The options of the project's own benchmarks, beside those of `flightlog bench`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flightlog.tools.bench.harness import Options


@dataclass(frozen=True, kw_only=True)
class BenchOptions(Options):
    """Each command takes some of them."""

    readers: int = 16
    rates: Sequence[int] = ()
    """Messages that become due per second."""
    pending: int | None = None
    """Timers."""
    sync_size: float | None = None
    """Of a run of `make targets` with one thread of sync puts (MB), as `size` of its other runs."""
    full: bool = False
