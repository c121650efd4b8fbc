"""An implementation, as its manifest (image.yaml) describes it, and what its container may do."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from harness.errors import UnfitError
from harness.scenario.manifest_parameters import ParameterName, RoleSettings, Setting
from harness.scenario.parameters import ROLES, Role
from harness.scenario.schema.base import BUILD_FOLDER, COLOUR, FOLDER, IMAGE, NAME_OR_RELEASE, WEB_ADDRESS, Part
from harness.scenario.schema.flow import Refusal, TestcaseName
from harness.scenario.schema.mobility import ClientMove
from harness.scenario.schema.releases import Versions
from harness.units import Duration

# --- Requirements of an image for its container.


#: Capabilities that an image may request, by their names in capabilities(7). Each is one of Docker's defaults, and has
#: no effect outside the container.
Capability = Literal[
    "CHOWN",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_RAW",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
]
#: Folders that every container has itself, or gets from the harness.
_TAKEN: Final = frozenset(
    {"certs", "dev", "downloads", "held", "logs", "proc", "run", "session", "sys", "tmp", "uploads", "www"}
)


class Container(Part):
    """What an image's containers may do beside what all endpoints may, and what they can do without."""

    capabilities: tuple[Capability, ...] = ()
    """Capabilities that its programs cannot do without, beside those of all endpoints."""
    read_only: bool = False
    """Whether its root may be read-only: beside /logs, /downloads and /uploads it writes to /tmp, /run and `writes`
    alone."""
    writes: tuple[Annotated[str, Field(pattern=FOLDER)], ...] = ()
    """Folders that it writes to where its root is read-only: empty in the beginning, and in memory."""

    @field_validator("writes")
    @classmethod
    def _own_folders(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for folder in value:
            if folder.split("/")[1] in _TAKEN:
                raise UnfitError(f"'{folder}' is not the image's own", "leave it out: what the contract has is there")
        return value

    @model_validator(mode="after")
    def _read_only_else(self) -> Self:
        if self.writes and not self.read_only:
            raise UnfitError("writes names folders, but the whole root can be written to", "say read_only: true")
        return self


# --- implementation


Protocol = Literal["h3", "hq-interop", "webtransport", "h2", "tcp", "udp"]
#: Protocols for downloads over QUIC, and all that transfer files: h2 is HTTP/2 over TLS and TCP.
_OVER_QUIC = frozenset({"h3", "hq-interop"})
_OF_FILES = _OVER_QUIC | {"h2", "webtransport"}
#: Symbols of Vega (vega.github.io/vega/docs/marks/symbol) that are easy to distinguish.
Marker = Literal[
    "circle",
    "square",
    "cross",
    "diamond",
    "triangle-up",
    "triangle-down",
    "triangle-left",
    "triangle-right",
]


#: Events that a log may show: this endpoint's timers, and what its peer sent or received.
EndingWord = Literal["idle_timeout", "handshake_timeout", "ack_timeout", "stateless_reset", "peer_closed", "closed"]


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        hint = "escape what it is to find as it stands"
        raise UnfitError(f"'{text}' is no regular expression: {error}", hint) from error
    return text


class Implementation(Part):
    """A contestant: an image that follows the interop endpoint contract."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    """Version of this format."""
    name: Annotated[str, Field(pattern=NAME_OR_RELEASE)]
    """Short name, used on the command line. That of a release, NAME@VERSION, is in no manifest."""
    title: str = ""
    """Name shown to people."""
    project: str = ""
    """Home page."""
    licence: str = ""
    """Licence of the implementation."""
    version: str = ""
    """Version of the implementation inside the image."""
    versions: Versions | None = None
    """Where its other releases come from, each of them an implementation NAME@VERSION of its own."""
    image: Annotated[str, Field(pattern=IMAGE)] | None = None
    """A published image, by name; pulled when it is not present."""
    build: Annotated[str, Field(pattern=BUILD_FOLDER)] | None = None
    """Folder of the Dockerfile, relative to this file, instead of `image`."""
    upstream_image: Annotated[str, Field(pattern=IMAGE)] | None = None
    """A published image that the build starts from; where no registry is reached, it cannot be built."""
    upstream_repository: Annotated[str, Field(pattern=WEB_ADDRESS)] | None = None
    """A Git repository that the build clones; where it is not reached, it cannot be built."""
    architectures: tuple[Literal["x86_64", "aarch64"], ...] = ()
    """Processors that its image can be built for, as `uname -m` names them; all by default."""
    build_time: Duration = Duration.parse("60 s")
    """Time of a build on two cores, for the estimate."""
    tested: bool = False
    """Whether the authors of its manifest have run it; what is said of others is what their sources say."""
    roles: Annotated[tuple[Role, ...], Field(min_length=1)] = ("client", "server")
    """Roles it can play."""
    protocols: Annotated[tuple[Protocol, ...], Field(min_length=1)] = ("h3", "hq-interop")
    """Application protocols: h3, hq-interop and webtransport (in test cases of its own) over QUIC, h2 over TCP; tcp and
    udp of a generator of traffic."""
    uploads: tuple[Literal["h3", "hq-interop"], ...] = ()
    """Protocols over which its client sends files, and its server keeps them, where DIRECTION asks for that."""
    schedules: tuple[Literal["h3", "hq-interop", "h2"], ...] = ()
    """Protocols over which its client asks for files when SCHEDULE says, with the priorities that it says."""
    connections: bool = False
    """Its client makes several connections at once, as CONNECTIONS says."""
    datagrams: bool = False
    """Its server sends datagrams at equal times, and its client writes down what comes, where DATAGRAMS asks for that;
    over hq-interop."""
    browser: bool = False
    """Its client loads a page as its document and its styles name the objects, and follows no other schedule."""
    priorities: bool = False
    """Its server sends the more urgent of its responses first, as their requests ask (RFC 9218)."""
    colour: Annotated[str, Field(pattern=COLOUR)] = "#777777"
    """Its colour in every plot."""
    marker: Marker = "circle"
    """Its marker in every plot."""
    session: bool = False
    """Whether its client keeps session tickets in SESSION_DIR and resumes from them."""
    moves: tuple[ClientMove, ...] = ()
    """How its client can change its address when MOVES tells it to; none by default."""
    parameters: dict[ParameterName, RoleSettings] = {}
    """Normalised parameters: per role how they are set, which values it takes, and the default in force."""
    virtual_environment: dict[Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")], str] = {}
    """Variables that its endpoints have in virtual time alone, so that what it does is the same whatever processor the
    host has: Go's garbage collector (1.26) goes another way where there is AVX-512, unless GODEBUG hides that."""
    container: Container = Container()
    """What a container of its image may do beside what all may, and what it can do without."""
    refuses: tuple[Refusal, ...] = ()
    """Test cases of the interop runner that it ends with 127 for, beside those over a protocol that it does not speak;
    an image that is built here names all."""
    endings: dict[EndingWord, Annotated[str, AfterValidator(_pattern)]] = {}
    """How its log tells that a connection ended: a regular expression for each way, looked for line by line. Of closed
    (by this endpoint, with an error) and peer_closed, groups named code and words give the code and the reason."""
    extensions: tuple[Literal["ack_frequency"], ...] = ()
    """Extensions it negotiates; ack_frequency lets a peer set its ACK ratio (draft-ietf-quic-ack-frequency)."""
    notes: str = ""
    """Anything a reader should know."""

    @field_validator("name")
    @classmethod
    def _own_name(cls, value: str) -> str:
        if value == "all":
            raise UnfitError("'all' stands for everybody", "choose another name")
        return value

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.image is None) == (self.build is None):
            raise UnfitError(
                "give exactly one of image (a published image) and build (a folder with a Dockerfile)",
                "leave one of the two out",
            )
        return self

    @field_validator("parameters", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        """Tell each entry its name, which decides how its values are written."""
        if not isinstance(value, dict):
            return value
        return {key: {**item, "parameter": key} if isinstance(item, dict) else item for key, item in value.items()}

    @model_validator(mode="after")
    def _roles_it_plays(self) -> Self:
        for name, settings in self.parameters.items():
            # A setting without a role is the same for both roles, and applies to those that exist.
            for role in ROLES:
                if role not in self.roles and settings.of(role) is not None and settings.client != settings.server:
                    raise UnfitError(
                        f"parameters.{name} has a {role}, but roles names none",
                        "name the role in roles, or leave it out here",
                    )
        if self.build is None and (self.upstream_image or self.upstream_repository):
            raise UnfitError(
                "upstream_image and upstream_repository say what a build needs; there is no build",
                "leave them out, or write build: .",
            )
        return self

    @property
    def base_name(self) -> str:
        """Its name without a release."""
        return self.name.partition("@")[0]

    @property
    def release(self) -> str:
        """The release that its name asks for; empty where it asks for none."""
        return self.name.partition("@")[2]

    @property
    def elsewhere(self) -> bool:
        """Whether it needs a published image or a repository."""
        return bool(self.image or self.upstream_image or self.upstream_repository)

    @property
    def transfers_files(self) -> bool:
        """Whether it may be named for a matrix."""
        return not _OF_FILES.isdisjoint(self.protocols)

    @property
    def speaks_quic(self) -> bool:
        """Whether it is one of all that a matrix has unless told."""
        return not _OVER_QUIC.isdisjoint(self.protocols)

    def setting(self, role: Role, name: str) -> Setting | None:
        """How it sets a parameter in a role, with the default in force; None where nothing is known."""
        settings = self.parameters.get(name)
        return settings.of(role) if settings is not None and role in self.roles else None

    def refusal(self, role: Role, testcase: TestcaseName) -> str:
        """Why it ends with 127 when a role is told a test case; empty where it does not."""
        if role not in self.roles:
            return f"it has no {role}"
        protocol: Protocol = "h3" if testcase == "http3" else "hq-interop"
        if protocol not in self.protocols:
            return f"it does not speak {protocol}"
        reasons = (refusal.why for refusal in self.refuses if role in refusal.roles and testcase in refusal.testcases)
        return next(reasons, "")
