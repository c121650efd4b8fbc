"""The certificates of a lab: what makes a chain large."""

from __future__ import annotations

import zlib
from pathlib import Path

from cryptography import x509

from harness.engine.certificates import virtual_certificates


def test_the_filler_of_a_large_certificate_stays_large_when_it_is_compressed(tmp_path: Path) -> None:
    """A client that takes compressed certificates (RFC 8879) must still be sent more than the limit lets pass."""
    pem = (virtual_certificates(tmp_path, 9) / "cert.pem").read_bytes()
    leaf = x509.load_pem_x509_certificates(pem)[0]
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    filler = [name for name in names if len(name) == 250]
    assert len(set(filler)) == 20
    assert len(zlib.compress("".join(filler).encode(), 9)) > 3 * 1200
    assert pem == (virtual_certificates(tmp_path, 9) / "cert.pem").read_bytes()
