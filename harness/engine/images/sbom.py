"""The components of an image as an SBOM: CycloneDX 1.6 (ECMA-424), JSON, with purls (package-url/purl-spec).

The same image has the same SBOM, to the byte: it has no time, and its serial number is derived from its content.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from typing import TYPE_CHECKING

from harness.engine.images.components import Component as Part
from harness.engine.images.components import Composition

if TYPE_CHECKING:
    from cyclonedx.model.component import Component
    from packageurl import PackageURL

#: The namespace of serial numbers (RFC 9562 §5.5).
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "sbom.quic-lab.invalid")
_NOBODY = uuid.UUID(int=0)
#: Property with a component's digest, where that is not the hash of a single artefact.
_PROPERTIES = {"deb": "quic-lab:files-sha256", "pypi": "quic-lab:files-sha256", "golang": "quic-lab:go-sum"}


def sbom_of(reference: str, composition: Composition) -> str:
    """The SBOM of an image. `reference`: its name and tag, `quic-lab/quiche:902314085cc8`."""
    # The import takes a second, and few commands need it.
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6

    name, _, version = reference.rpartition(":")
    image = Component(name=name, version=version, type=ComponentType.CONTAINER, bom_ref="image")
    parts = [*_packages(composition), *_files(composition)]

    def text(serial: uuid.UUID) -> str:
        bom = Bom(serial_number=serial, metadata=BomMetaData(component=image), components=parts)
        # With None the library writes no time, although the type does not allow None.
        bom.metadata.timestamp = None  # type: ignore[assignment]
        bom.register_dependency(image, parts)
        return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"

    return text(uuid.uuid5(_NAMESPACE, text(_NOBODY)))


def purl_of(part: Part, distribution: str) -> PackageURL:
    """The purl of a component. `distribution`: `debian-13`, or empty."""
    from packageurl import PackageURL

    if part.kind == "deb":
        words = {"arch": part.architecture, "distro": distribution, "upstream": part.source.replace(" ", "@")}
        vendor = distribution.partition("-")[0] or "debian"
        return PackageURL("deb", vendor, part.name, part.version, {key: word for key, word in words.items() if word})
    if part.kind == "golang":
        # The purl type golang has lower-case names.
        folder, _, name = part.name.lower().rpartition("/")
        return PackageURL("golang", folder or None, name, part.version or None)
    # Names of PyPI are normalized (PEP 503).
    name = re.sub(r"[-_.]+", "-", part.name).lower() if part.kind == "pypi" else part.name
    return PackageURL(part.kind, None, name, part.version)


def _packages(composition: Composition) -> list[Component]:
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.component import Component, ComponentType

    packages, copies = [], Counter[str]()
    for part in composition.components:
        purl = purl_of(part, composition.distribution)
        # An image may have two copies of a package with different content.
        copies[str(purl)] += 1
        number = copies[str(purl)]
        property_name = _PROPERTIES.get(part.kind)
        digest, properties = [], []
        if part.digest and property_name:
            properties = [Property(name=property_name, value=part.digest)]
        elif part.digest:
            digest = [HashType(alg=HashAlgorithm.SHA_256, content=part.digest)]
        packages.append(
            Component(
                name=part.name,
                version=part.version or None,
                type=ComponentType.LIBRARY,
                purl=purl,
                bom_ref=str(purl) if number == 1 else f"{purl}#{number}",
                hashes=digest,
                properties=properties,
            )
        )
    return packages


def _files(composition: Composition) -> list[Component]:
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import Component, ComponentType

    return [
        Component(
            name=path,
            type=ComponentType.FILE,
            bom_ref=f"file:{path}",
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        )
        for path, digest in composition.files.items()
    ]
