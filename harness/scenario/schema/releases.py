"""The releases of an implementation: where they come from, and which of them its endpoint can be built with."""

from __future__ import annotations

import datetime
import itertools
import re
from functools import total_ordering
from typing import Annotated, Any, Literal, Self

from packaging.version import InvalidVersion
from packaging.version import Version as ParsedVersion
from pydantic import Field, field_validator, model_validator
from pydantic_core import CoreSchema, core_schema

from harness.errors import UnfitError
from harness.formatting import format_value
from harness.scenario.schema.base import BUILD_FOLDER, VERSION, Part

#: Beside a manifest: the file that says which releases there are, and the folder with what the recipe of each has
#: otherwise than the current one's.
RELEASES_FILE, RELEASES_FOLDER = "releases.yaml", "releases"
#: Where packages are published: crates of Rust, the Python package index, modules of Go, packages of Debian.
Registry = Literal["crates", "pypi", "go", "debian"]


@total_ordering
class Version:
    """A version of a package, with the order of releases (PEP 440, which Semantic Versioning's numbers fit)."""

    def __init__(self, text: str) -> None:
        """ValueError for a text that is no version."""
        try:
            self._parsed = ParsedVersion(text)
        except InvalidVersion as error:
            raise ValueError(f"'{text}' is no version") from error
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Version({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._parsed == other._parsed

    def __lt__(self, other: Version) -> bool:
        return self._parsed < other._parsed

    def __hash__(self) -> int:
        return hash(self._parsed)

    @property
    def minor(self) -> tuple[int, int]:
        """Its major and minor number, which its patch releases share."""
        return self._parsed.major, self._parsed.minor

    @property
    def is_prerelease(self) -> bool:
        """Whether it comes before a release, as 2.0.0-beta does."""
        return self._parsed.is_prerelease

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validated, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"type": "string", "pattern": VERSION}

    @classmethod
    def _validated(cls, value: object) -> Version:
        if isinstance(value, Version):
            return value
        hint = 'write it as the registry has it, 0.24.4 say, and in quotes where it has one dot: "1.7"'
        if not isinstance(value, str) or not re.match(VERSION, value):
            raise UnfitError(f"{format_value(value)} is no version", hint)
        try:
            return cls(value)
        except ValueError as error:
            raise UnfitError(str(error), hint) from error


class Adaptation(Part):
    """A change of the endpoint's source for releases whose API is another."""

    before: Version
    """The first release that needs it no longer."""
    patch: Annotated[str, Field(pattern=BUILD_FOLDER)]
    """A unified diff (`git diff --no-index`) below releases/, which leads from the source for later releases to that
    for these."""


class Versions(Part):
    """Where an implementation's releases come from, and from which on its endpoint can be built with them."""

    from_: Annotated[Registry, Field(alias="from")]
    """The kind of registry that has them."""
    package: str
    """Its name there: the package that the behaviour is of."""
    current: Version | None = None
    """The release that the recipe itself has; without, the manifest's version."""
    follow: tuple[str, ...] = ()
    """Other packages that the recipe pins and whose version follows from the package's, such as a crate around it."""
    least: Version
    """The oldest release that the endpoint's source can be built with."""
    adaptations: tuple[Adaptation, ...] = ()
    """Changes of the endpoint's source for older releases, from the newest back: a release has all that are for it."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for later, earlier in itertools.pairwise(self.adaptations):
            if not earlier.before < later.before:
                raise UnfitError(
                    f"the adaptation before {earlier.before} stands behind that before {later.before}",
                    "write the newest first: each patch leads on from the one above it",
                )
        return self


class Release(Part):
    """One release, as its registry has it."""

    version: Version
    date: datetime.date
    """When it was published."""
    yanked: bool = False
    """Whether its authors took it back."""
    note: str = ""
    """What its authors publish about it that explains a change here, in a sentence of ours."""


class Releases(Part):
    """The file releases.yaml beside a manifest: every release that its registry has."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    """Version of this format."""
    releases: tuple[Release, ...]
    """From the oldest version to the newest."""

    @field_validator("releases")
    @classmethod
    def _sorted(cls, value: tuple[Release, ...]) -> tuple[Release, ...]:
        for earlier, later in itertools.pairwise(value):
            if not earlier.version < later.version:
                raise UnfitError(f"{later.version} stands behind {earlier.version}", "sort them, each once")
        return value
