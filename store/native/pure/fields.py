"""The bases of messages, in Python: of those that are put, and of those that a store gives out, whose fields are made
when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from ...format import property_names as props
from ...format.frame import BORN_HOST_AT
from ...format.property_names import split_keys
from .messages import decode_properties, record_fields, set_field
from .walk import host_places

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES: Final = (
    *("size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag"),
    *("born_timestamp_ms", "store_timestamp_ms", "store_host_raw", "reconsume_times", "prepared_transaction_offset"),
    *("topic", "properties_raw", "batch_index"),
)
"""What is set at once when the first of them is asked for."""
OF_RECORD: Final = frozenset(NAMES)


class MessageFields:
    """See `native.MessageFields`."""

    __slots__ = (
        *("topic", "body", "tags", "keys", "properties", "queue_id", "flag", "uniq_key", "born_timestamp_ms"),
        *("born_host", "sys_flag", "reconsume_times", "prepared_transaction_offset", "wait_store_ok", "compress"),
        "delay_level",
    )


class RecordFields:
    """See `native.RecordFields`."""

    __slots__ = ("_rest", *NAMES, "body", "born_host", "store_host", "properties", "__weakref__")

    if TYPE_CHECKING:
        _rest: bytes
        _decode_host: ClassVar[Callable[[bytes], object]]
        properties: dict[str, str]
        """Name to value, as RocketMQ's parser reads them."""
    else:  # where mypy looks on, every name would be an attribute

        def __getattr__(self, name):
            """Called for a field that is not set yet."""
            if name in OF_RECORD:
                values = record_fields(self._rest)
                if values is None:
                    raise ValueError("no record without its body")
                for each, value in zip(NAMES, values, strict=True):
                    set_field(self, each, value)
            elif name == "properties":
                set_field(self, name, decode_properties(self.properties_raw))
            elif name == "born_host":
                born_host = self._rest[BORN_HOST_AT : host_places(self.sys_flag)[0]]
                set_field(self, name, self._decode_host(born_host))
            elif name == "store_host":
                set_field(self, name, self._decode_host(self.store_host_raw))
            else:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            return getattr(self, name)

    @property
    def tags(self) -> str | None:
        """The tag; None without one."""
        return self.properties.get(props.TAGS)

    @property
    def keys(self) -> list[str]:
        """Its index keys; none of them is empty."""
        return split_keys(self.properties.get(props.KEYS, ""))

    @property
    def uniq_key(self) -> str | None:
        """The sender's own id of it; None without one."""
        return self.properties.get(props.UNIQ_KEY)
