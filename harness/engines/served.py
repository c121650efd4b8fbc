"""What the servers serve: files of given sizes, and the certificates."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.lab import Lab

#: Names the endpoint contract uses for a server.
NAMES = ("server", "server4", "server6", "server46")
VALID_DAYS, RENEW_DAYS = 10, 2
#: Certificates are valid from this long before they are made, since clocks differ.
BACKDATED = datetime.timedelta(hours=1)


def served_file(folder: Path, name: str, size: int) -> Path:
    """A file of `size` incompressible bytes, the same on every machine; made once."""
    file = folder / name
    if file.exists() and file.stat().st_size == size:
        return file
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.Generator(np.random.PCG64(size))
    unfinished = file.with_suffix(f".{os.getpid()}")
    with unfinished.open("wb") as out:
        left = size
        while left:
            chunk = min(left, 1 << 24)
            out.write(generator.bytes(chunk))
            left -= chunk
    unfinished.replace(file)
    return file


def serve(lab: Lab, cache: Path) -> None:
    """Make the files that a lab's servers serve."""
    for flow in lab.flows:
        if flow.file:
            served_file(cache / "www", flow.file, flow.size)


def same_content(one: Path, other: Path, *, part: bool = False) -> int | None:
    """Offset of the first byte in which two files differ, or None when equal.

    A missing tail counts, unless `part`: then the first may be a beginning of the other.
    """
    offset = 0
    with one.open("rb") as first, other.open("rb") as second:
        while True:
            a = first.read(1 << 22)
            b = second.read(len(a) if part else 1 << 22)
            if a != b:
                shorter = min(len(a), len(b))
                left, right = (np.frombuffer(data[:shorter], dtype=np.uint8) for data in (a, b))
                differing = np.flatnonzero(left != right)
                return offset + (int(differing[0]) if differing.size else shorter)
            if not a:
                return None
            offset += len(a)


def _certificate(
    subject: str,
    key: ec.EllipticCurvePublicKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if not authority:
        names = x509.SubjectAlternativeName([x509.DNSName(name) for name in NAMES])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def certificates(folder: Path) -> Path:
    """A folder with ca.pem, cert.pem and priv.key as the contract has them: ECDSA P-256, SHA-256, ten days.

    Made anew when what is there runs out within two days.
    """
    if _still_valid(folder / "cert.pem"):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("quic-lab CA", authority_key.public_key(), "quic-lab CA", authority_key, authority=True)
    leaf = _certificate("server", key.public_key(), "quic-lab CA", authority_key, authority=False)
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(authority.public_bytes(pem))
    (folder / "priv.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    # Endpoints in containers run as whoever their image says; these are keys of a lab.
    (folder / "priv.key").chmod(0o644)
    (folder / "cert.pem").write_bytes(leaf.public_bytes(pem))
    return folder


def valid_from(folder: Path) -> datetime.datetime:
    """When the certificate of a folder was made: a moment at which it is valid, and the same until it is renewed."""
    leaf = x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())
    return leaf.not_valid_before_utc + BACKDATED


def _still_valid(file: Path) -> bool:
    try:
        leaf = x509.load_pem_x509_certificate(file.read_bytes())
    except (OSError, ValueError):
        return False
    left = leaf.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    return left > datetime.timedelta(days=RENEW_DAYS)
