"""The servers' certificates: made and renewed in real time, fixed in virtual time.

In virtual time keys, serial numbers, dates and signatures are constants, and so is the start of the lab's clock. So
the packets of a run do not depend on the machine or the day. The keys are derived in this file, so they are public.
They protect nothing: no lab has a secret.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import os
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.engine.served_files import set_fixed_metadata

#: Names the endpoint contract uses for a server.
NAMES = ("server", "server4", "server6", "server46")
VALID_DAYS, RENEW_DAYS = 10, 2
#: Certificates are valid from this long before they are made, since clocks differ.
BACKDATED = datetime.timedelta(hours=1)
#: When the clock of every lab in virtual time starts, and when its certificates were made.
VIRTUAL_START = datetime.datetime(2026, 1, 1, 1, tzinfo=datetime.UTC)
#: Order of the group of P-256 (SEC 2 §2.4.2).
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_AUTHORITY, _SERVER = "quic-lab CA", "server"
_LETTERS = string.ascii_letters + string.digits


def _filler(number: int) -> str:
    """A name of 250 letters and digits, the same on every machine, which certificate compression (RFC 8879) cannot
    shorten much.
    """
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in hashlib.shake_256(b"%d" % number).digest(250))


#: Twenty names of 250 characters, as the interop runner's own script makes them (certs.sh).
_FILLING = tuple(map(_filler, range(20)))


@dataclass(frozen=True)
class _Owner:
    name: str
    key: ec.EllipticCurvePrivateKey
    serial: int


def certificates(cache: Path, count: int = 1) -> Path:
    """A folder below `cache` with ca.pem, cert.pem and priv.key as the contract has them.

    ECDSA with P-256 and SHA-256, valid for ten days. They are made anew when the present ones expire within two days.
    `count`: number of certificates in cert.pem, the server's first. With more than one the server's is large.
    """
    folder = cache / _folder("certs", count)
    if _still_valid(folder / "cert.pem"):
        return folder
    owners = [
        _Owner(name, ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number()) for name in _names(count)
    ]
    return _write(folder, owners, datetime.datetime.now(datetime.UTC))


def virtual_certificates(cache: Path, count: int = 1) -> Path:
    """The same for virtual time, in another folder: the same bytes on every machine, valid from `VIRTUAL_START` on."""
    owners = [_Owner(name, _fixed_key(name), serial) for serial, name in enumerate(_names(count), 1)]
    return _write(cache / _folder("certs-virtual", count), owners, VIRTUAL_START)


def _folder(name: str, count: int) -> str:
    return name if count == 1 else f"{name}-{count}"


def _names(count: int) -> list[str]:
    """Names of the chain, from the authority to the server: each signs the next."""
    return [_AUTHORITY, *(f"{_AUTHORITY} {number}" for number in range(1, count)), _SERVER]


def _fixed_key(name: str) -> ec.EllipticCurvePrivateKey:
    number = int.from_bytes(hashlib.sha512(f"quic-lab in virtual time: {name}".encode()).digest())
    return ec.derive_private_key(number % (_ORDER - 1) + 1, ec.SECP256R1())


def _write(folder: Path, owners: Sequence[_Owner], now: datetime.datetime) -> Path:
    pem = serialization.Encoding.PEM
    authority, server = owners[0], owners[-1]
    chain = [_certificate(owner, issuer, now, len(owners) > 2) for issuer, owner in itertools.pairwise(owners)]
    key = server.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files = {
        "ca.pem": _certificate(authority, authority, now).public_bytes(pem),
        "priv.key": key,
        "cert.pem": b"".join(certificate.public_bytes(pem) for certificate in reversed(chain)),
    }
    for name, content in files.items():
        file = folder / name
        if not file.exists() or file.read_bytes() != content:
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = folder / f"{name}.{os.getpid()}"
            unfinished.write_bytes(content)
            unfinished.replace(file)
        # Endpoints in containers run as any user, and must be able to read the key.
        set_fixed_metadata(file)
    return folder


def _certificate(owner: _Owner, issuer: _Owner, now: datetime.datetime, large: bool = False) -> x509.Certificate:
    """Sign a certificate. `large`: that of a server gets many long names that nobody uses."""
    authority = owner.name.startswith(_AUTHORITY)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, owner.name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer.name)]))
        .public_key(owner.key.public_key())
        .serial_number(owner.serial)
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if not authority:
        dns_names = [*NAMES, *(_FILLING if large else ())]
        names = x509.SubjectAlternativeName([x509.DNSName(name) for name in dns_names])
        builder = builder.add_extension(names, critical=False)
    # RFC 6979: signatures without random numbers.
    return builder.sign(issuer.key, hashes.SHA256(), ecdsa_deterministic=True)


def _still_valid(file: Path) -> bool:
    try:
        leaf = x509.load_pem_x509_certificate(file.read_bytes())
    except (OSError, ValueError):
        return False
    left = leaf.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    return left > datetime.timedelta(days=RENEW_DAYS)
