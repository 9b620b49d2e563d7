"""A certificate that nobody vouches for."""

import socket
import ssl
import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def self_signed(path: Path) -> ssl.SSLContext:
    """What a TLS server called localhost needs; its key and certificate are written to the path as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def encrypted(resources: ExitStack, path: Path) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """The server's and the client's end of a TLS connection."""
    plain = [resources.enter_context(end) for end in socket.socketpair()]
    served = []
    server = self_signed(path)
    accept = threading.Thread(target=lambda: served.append(server.wrap_socket(plain[0], server_side=True)))
    accept.start()
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    source = resources.enter_context(trusting.wrap_socket(plain[1]))
    accept.join()
    return resources.enter_context(served[0]), source
