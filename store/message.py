"""What goes into a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from . import native
from .errors import InvalidMessageError, shown, shown_body
from .format import property_names as props
from .format.compression import CompressionType
from .format.java_hash import java_hash
from .timer_errors import InvalidTimerError


@dataclass(slots=True)
class Message(native.MessageFields):
    """A message to put. `tags`, `keys` and `uniq_key` are written as the properties TAGS, KEYS and UNIQ_KEY."""

    topic: str
    body: bytes
    tags: str | None = None
    keys: Sequence[str] | str = ()
    """Index keys: one as a string, or several. No key is empty or contains a space, which separates them."""
    properties: Mapping[str, str] | None = None
    queue_id: int | None = 0
    """None: the topic's write queues take turns."""
    flag: int = 0
    """An opaque signed 32-bit number of the application."""
    uniq_key: str | None = None
    """The sender's own id of this message."""
    born_timestamp_ms: int | None = None
    """When the sender made it; None = the store's clock at the put."""
    born_host: tuple[str, int] | None = None
    """Address and port of the sender; None = the store host."""
    sys_flag: int = 0
    """Compression, multi-tags and transaction bits (see store/format/sys_flag.py); the host bits are set by the
    store."""
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    wait_store_ok: bool = True
    """Whether a put under sync flush waits until the message is durable. False is written as the property WAIT=false,
    and a message whose properties say WAIT=false does not wait either: the put answers PUT_OK at once, its sync
    follows, and the message can be read once it is durable. No effect under async flush."""
    compress: CompressionType | None = None
    """How the put compresses the body, which it notes in the flags. LZ4 and ZSTD need the extra `compression`. For a
    body that is already compressed, set its bits in `sys_flag` and leave this None."""
    delay_level: int = 0
    """Delay level of the delivery: 1, 2, ... of the setting `delay_levels`, the highest one if there are fewer; written
    as the property DELAY. 0: at once, unless the property says otherwise. See docs/delays.md."""

    def __repr__(self) -> str:
        """What differs from the defaults; of the body its beginning and size."""
        others = [one for one in fields(self) if one.name not in ("topic", "body")]
        told = [f"{one.name}={getattr(self, one.name)!r}" for one in others if getattr(self, one.name) != one.default]
        return f"Message({', '.join((repr(self.topic), shown_body(self.body), *told))})"

    def deliver_at_ms(self, at_ms: int) -> Message:
        """Deliver it at this time, in milliseconds since 1970; replaces an earlier time or delay. It is the property
        TIMER_DELIVER_MS. Returns the message. See docs/delays.md."""
        return self._set_timer(props.TIMER_DELIVER_MS, "at_ms", at_ms)

    def deliver_after_ms(self, delay_ms: int) -> Message:
        """Deliver it so many milliseconds after the put: the property TIMER_DELAY_MS. Otherwise as `deliver_at_ms`."""
        return self._set_timer(props.TIMER_DELAY_MS, "delay_ms", delay_ms)

    # Not fields: each would cost every message that is made, and nearly none is for later.
    def _set_timer(self, name: str, argument: str, ms: int) -> Message:
        if not isinstance(ms, int) or isinstance(ms, bool) or ms < 0:
            raise InvalidTimerError(
                f"topic {shown(self.topic)}: {name}: {argument}={shown(ms)}: expected a whole number of milliseconds, "
                "0 or more"
            )
        asked = (props.DELAY, *props.TIMER_PROPERTIES)
        kept = {key: value for key, value in (self.properties or {}).items() if key not in asked}
        self.properties, self.delay_level = kept | {name: str(ms)}, 0
        return self

    @property
    def waits_for_sync(self) -> bool:
        """What `wait_store_ok` and the property WAIT come to. Any other value than "false" waits: the safe side."""
        if not self.wait_store_ok:
            return False
        given = self.properties
        return not given or str(given.get(props.WAIT, "")).lower() != "false"

    def all_properties(self) -> dict[str, str]:
        """The properties as they are stored. Raises InvalidMessageError for keys that could not be told apart."""
        found = dict(self.properties) if self.properties else {}
        if self.keys:
            keys = (self.keys,) if isinstance(self.keys, str) else self.keys
            for key in keys:
                check_key(key)
            found[props.KEYS] = props.KEY_SEPARATOR.join(keys)
        if self.tags:
            found[props.TAGS] = self.tags
        if self.uniq_key:
            found[props.UNIQ_KEY] = self.uniq_key
        if not self.wait_store_ok:
            found[props.WAIT] = "false"
        if self.delay_level:
            found[props.DELAY] = str(self.delay_level)
        return found


def check_key(key: str) -> None:
    """Raise InvalidMessageError for a key that readers of the KEYS property could not tell apart from others."""
    if not key or props.KEY_SEPARATOR in key:
        raise InvalidMessageError(f"key {key!r}: a key is not empty and has no space, which separates keys")


def tags_code(tags: str | None) -> int:
    """What a queue entry keeps of a tag: the Java hash of the whole string, 0 without one."""
    return java_hash(tags) if tags else 0
