"""Certificates for development, which `--tls-dev` makes: an authority that is kept, and a certificate that it signs.

    ROOT/flightlog/tls/ca.pem        what clients may trust (GRPC_DEFAULT_SSL_ROOTS_FILE_PATH, a trust store of Java)
    ROOT/flightlog/tls/ca-key.pem    its key, for the owner alone
    ROOT/flightlog/tls/server.pem    the server's key and certificate, made at each start, for the owner alone

The official clients of Java, Go, C# and C++ use TLS unless they are told not to, and accept any certificate.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...store.errors import MissingExtraError

if TYPE_CHECKING:
    from cryptography import x509

HTTP_2, HTTP_1 = "h2", "http/1.1"
"""What a TLS handshake calls them."""
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
CA_NAME = "flightlog development CA"
CA_DAYS, SERVER_DAYS = 3650, 397
"""397 days are the most that clients accept of a server's certificate."""


def development_tls(folder: Path, names: Iterable[str]) -> ssl.SSLContext:
    """A context with a certificate for these host names and addresses, signed by the authority in `folder`, which is
    made if it is not there. Raises MissingExtraError, OSError; ValueError for an authority that cannot be read."""
    try:
        import cryptography  # noqa: F401
    except ImportError as e:
        raise MissingExtraError("serve", "--tls-dev") from e
    folder.mkdir(parents=True, exist_ok=True)
    authority, authority_key = _authority(folder)
    server = folder / "server.pem"
    _write_private(server, _server_pem(authority, authority_key, names))
    context = server_context(HTTP_2)
    context.load_cert_chain(server)
    return context


def browser_tls(folder: Path) -> ssl.SSLContext:
    """A context for HTTP/1.1 with the certificate that `development_tls` made there last."""
    context = server_context(HTTP_1)
    context.load_cert_chain(folder / "server.pem")
    return context


def server_context(protocol: str) -> ssl.SSLContext:
    """A context without a certificate yet; `protocol` is what clients are to speak (ALPN)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    return context


def _authority(folder: Path) -> tuple[x509.Certificate, Any]:
    """The authority's certificate and key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    certificate, key = folder / "ca.pem", folder / "ca-key.pem"
    if certificate.exists() and key.exists():
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        return found, serialization.load_pem_private_key(key.read_bytes(), None)
    made_key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, CA_NAME)])
    builder = _builder(name, name, made_key, CA_DAYS).add_extension(x509.BasicConstraints(True, 0), critical=True)
    made = builder.sign(made_key, _sha256())
    _write_private(key, _key_pem(made_key))
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return made, made_key


def _server_pem(authority: x509.Certificate, authority_key: Any, names: Iterable[str]) -> bytes:
    """A new key and its certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "flightlog")])
    builder = _builder(name, authority.subject, key, SERVER_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
    known = [_general_name(each) for each in dict.fromkeys((*LOCAL_NAMES, *names))]
    made = builder.add_extension(x509.SubjectAlternativeName(known), critical=False).sign(authority_key, _sha256())
    return _key_pem(key) + made.public_bytes(serialization.Encoding.PEM)


def _builder(name: x509.Name, issuer: x509.Name, key: Any, days: int) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _sha256() -> Any:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA256()


def _key_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    form, protection = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return bytes(key.private_bytes(serialization.Encoding.PEM, form, protection))


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
