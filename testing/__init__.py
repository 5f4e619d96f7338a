"""What tests of programs with a store use: crashes, power cuts, failing disks and time, within one process.

    from flightlog.testing import FaultyDisk, PowerDisk, kill, log_positions, open_small

- `open_small`: a store with small files.
- `kill`: end a store as `kill -9` would end its process.
- `log_positions`: where its log ends: appended, visible, flushed, dispatched.
- `FaultyDisk`: syncs that block or fail, a full disk, any errno at any operation.
- `PowerDisk`: the power cut: what was not synced is gone.
- `ManualClock`, `AheadClock`: time that passes when the test says so.
- `serve`: a server for RocketMQ's own clients, with its `ServedStore`; needs the extra `serve`.

With pytest, the fixtures `flightlog_store`, `flightlog_disk`, `rocketmq`, `rocketmq_store` and `rocketmq_session` are
there once flightlog is installed; see `flightlog.testing.pytest_plugin`. `import flightlog` imports none of this, and
nothing but that plugin imports pytest. Not a mock: what runs is the store itself, on real files.
"""

from .clock import AheadClock, ManualClock
from .faulty_disk import Fault, FaultyDisk
from .power_disk import Died, PowerDisk
from .served_store import ServedStore, serve
from .stores import LogPositions, kill, log_positions, open_small

__all__ = [
    "AheadClock",
    "Died",
    "Fault",
    "FaultyDisk",
    "LogPositions",
    "ManualClock",
    "PowerDisk",
    "ServedStore",
    "kill",
    "log_positions",
    "open_small",
    "serve",
]
