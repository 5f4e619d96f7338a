"""A certificate of one's own, from PEM files that are followed: a renewed one counts for the next client."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

from ...store.errors import InvalidArgumentError
from .certificates import HTTP_1, HTTP_2, server_context

log = logging.getLogger("flightlog.serve")


class OwnCertificate:
    """The TLS of a server. `context`, and `for_browsers` that speak HTTP/1.1, stay the same objects when the files
    change, and are not changed themselves: a handshake that is under way would find a certificate without its key.
    Each handshake goes on with a context of what was last read whole."""

    def __init__(self, certificate: Path, key: Path | None) -> None:
        """`certificate` is a chain, the server's own first; `key` None: its key is in the same file. Raises
        InvalidArgumentError."""
        self._certificate, self._key = certificate, key
        self._seen = self._state()
        self._last_read = self._read()
        self.context, self.for_browsers = self._followed(HTTP_2), self._followed(HTTP_1)

    def _followed(self, protocol: str) -> ssl.SSLContext:
        def take_last_read(handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            handshake.context = self._last_read[protocol]

        context = server_context(protocol)
        context.sni_callback = take_last_read  # OpenSSL calls it for clients that name no server, too
        return context

    def _state(self) -> list[tuple[int, int, int]] | None:
        try:
            found = [os.stat(path) for path in (self._certificate, self._key) if path is not None]
        except OSError:
            return None
        return [(each.st_ino, each.st_size, each.st_mtime_ns) for each in found]

    def _read(self) -> dict[str, ssl.SSLContext]:
        """By protocol."""
        contexts = {protocol: server_context(protocol) for protocol in (HTTP_2, HTTP_1)}
        try:
            for context in contexts.values():
                # Without this password OpenSSL asks the terminal.
                context.load_cert_chain(self._certificate, self._key, password=lambda: "")
        except (OSError, ValueError) as e:  # ssl.SSLError is an OSError
            expected = "PEM files: a certificate, and its key without a password"
            reason = getattr(e, "reason", None) or getattr(e, "strerror", None) or e
            given = f"{self._certificate}, {self._key}" if self._key else str(self._certificate)
            raise InvalidArgumentError("--tls-cert and --tls-key", given, f"{expected} ({reason})") from None
        return contexts

    def refresh(self) -> None:
        """Read the files again if they have changed. If they are wrong, the certificate stays as it was."""
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        fields = {"path": str(self._certificate)}
        try:
            self._last_read = self._read()
        except InvalidArgumentError as e:
            log.error("the certificate stays as it was: %s", e, extra=fields)
        else:
            log.info("the certificate was read again from %s", self._certificate, extra=fields)
