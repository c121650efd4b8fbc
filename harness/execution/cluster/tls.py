"""TLS between driver, scheduler and workers: all use one folder with a CA certificate, a certificate and its key.

Only a machine that has the folder can take part. `harness cluster tls` makes it once; every machine has a copy.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.errors import InputError
from harness.writing import write_new_file

AUTHORITY, CERTIFICATE, KEY = "ca.pem", "cert.pem", "key.pem"
VALIDITY_DAYS = 365


def write_certificates(folder: Path) -> None:
    """Make the three files. InputError if one exists already; raises OSError."""
    existing = [name for name in (AUTHORITY, CERTIFICATE, KEY) if (folder / name).exists()]
    if existing:
        raise InputError(f"{folder} has a {existing[0]} already", "name another folder, or remove it there")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder.resolve()
    authority_key, member_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("quic-lab cluster CA", authority_key, "quic-lab cluster CA", authority_key, authority=True)
    member = _certificate("quic-lab cluster", member_key, "quic-lab cluster CA", authority_key, authority=False)
    pem = serialization.Encoding.PEM
    secret = member_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_new_file(target / KEY, secret, 0o600)
    write_new_file(target / CERTIFICATE, member.public_bytes(pem))
    # The key of the CA is not kept, since it signs nothing more.
    write_new_file(target / AUTHORITY, authority.public_bytes(pem))


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey, *, authority: bool
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # The clocks of machines differ.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALIDITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )


def certificate_paths(folder: Path) -> dict[str, str]:
    """Paths of the three files of a folder: CA certificate, certificate, key. InputError if one is missing."""
    missing = [name for name in (AUTHORITY, CERTIFICATE, KEY) if not (folder / name).is_file()]
    if missing:
        raise InputError(f"{folder} has no {missing[0]}", "'harness cluster tls FOLDER' makes all it takes")
    return {name: str((folder / name).resolve()) for name in (AUTHORITY, CERTIFICATE, KEY)}


def dask_security(folder: Path) -> Any:
    """Dask's security object for the folder, which requires encryption. Raises InputError."""
    from distributed.security import Security

    paths = certificate_paths(folder)
    roles = ("client", "scheduler", "worker")
    kinds = {"cert": CERTIFICATE, "key": KEY}
    pairs = {f"tls_{role}_{kind}": paths[name] for role in roles for kind, name in kinds.items()}
    # Untyped in `distributed`.
    security_class: Any = Security
    return security_class(require_encryption=True, tls_ca_file=paths[AUTHORITY], **pairs)


def dask_options(folder: Path) -> list[str]:
    """The same as options of `dask scheduler` and `dask worker`. Raises InputError."""
    paths = certificate_paths(folder)
    return ["--tls-ca-file", paths[AUTHORITY], "--tls-cert", paths[CERTIFICATE], "--tls-key", paths[KEY]]
