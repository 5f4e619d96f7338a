"""From a store's folder to RocketMQ's own brokers: is it fit for one, and which `broker.conf` fits it.

    check ──> log_survey
      │
      ├─────> broker_conf ──> sizes
      └─────> findings

    seed ───> broker_conf, sizes

RocketMQ is the distributed engine; nothing of one is built here. All of it reads, and changes nothing.
"""

from .broker_conf import FOR_EVER_HOURS, broker_conf
from .check import check
from .findings import HandoverFinding, HandoverReport
from .seed import SeededSlave, seed_slave

__all__ = [
    "FOR_EVER_HOURS",
    "HandoverFinding",
    "HandoverReport",
    "SeededSlave",
    "broker_conf",
    "check",
    "seed_slave",
]
