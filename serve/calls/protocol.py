"""The messages of RocketMQ's gRPC protocol (`apache.rocketmq.v2`), from PyPI's `rocketmq-python-client`.

That package imports its whole client, gRPC and OpenTelemetry when it is imported. Only two of its modules are needed
here, and they need protobuf alone: they are imported without running the two `__init__` files above them. A later
`import rocketmq` in the same process runs those, and finds the same two modules.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

PACKAGE = "rocketmq"
STUBS = f"{PACKAGE}.grpc_protocol"


def _stubs() -> tuple[Any, Any]:
    """The modules of definitions and of the service. Raises ModuleNotFoundError."""
    if STUBS in sys.modules:
        return _modules()
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("no package rocketmq here", name=PACKAGE)
    folder = spec.submodule_search_locations[0]
    had_package = PACKAGE in sys.modules
    bare = {PACKAGE: folder, STUBS: f"{folder}/grpc_protocol"}
    for name, path in bare.items():
        if name not in sys.modules:
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__path__ = [path]
    try:
        return _modules()
    finally:
        del sys.modules[STUBS]
        if not had_package:
            del sys.modules[PACKAGE]


def _modules() -> tuple[Any, Any]:
    return importlib.import_module(f"{STUBS}.definition_pb2"), importlib.import_module(f"{STUBS}.service_pb2")


definition, service = _stubs()
Code: Any = definition.Code

_SERVICE: Any = service.DESCRIPTOR.services_by_name["MessagingService"]
SERVICE_NAME: str = _SERVICE.full_name
REQUESTS: dict[str, Any] = {method.name: getattr(service, method.input_type.name) for method in _SERVICE.methods}
"""The class of a call's requests, by the call's name."""
RESPONSES: dict[str, Any] = {method.name: getattr(service, method.output_type.name) for method in _SERVICE.methods}


def status(code: int, text: str | None = None) -> Any:
    """A status; without a text, the code's name."""
    return definition.Status(code=code, message=Code.Name(code) if text is None else text)


def milliseconds(duration: Any) -> int:
    """Milliseconds of a Duration or a Timestamp. Any numbers that a client can send give a number."""
    return int(duration.seconds) * 1000 + int(duration.nanos) // 1_000_000


def set_milliseconds(field: Any, ms: int) -> None:
    """Set a Duration or a Timestamp."""
    field.seconds, field.nanos = ms // 1000, ms % 1000 * 1_000_000
