"""What endpoints are asked to do, in the words of the interop runner's contract."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from harness.scenario.parameters import ROLES, Role
from harness.scenario.schema.base import Part

TestcaseName = Literal[
    "handshake", "transfer", "chacha20", "keyupdate", "retry", "resumption", "zerortt", "http3", "multiconnect",
    "v2", "ecn", "connectionmigration", "versionnegotiation",
]  # fmt: skip
#: What only one role is told; the other one is asked for `transfer`.
ONE_SIDED: Final[dict[str, Role]] = {"keyupdate": "client", "connectionmigration": "server"}
TESTCASES: Final[tuple[TestcaseName, ...]] = get_args(TestcaseName)


class Refusal(Part):
    """Test cases that an image ends with 127 for, and why."""

    testcases: Annotated[tuple[TestcaseName, ...], Field(min_length=1)]
    """Those, by their TESTCASE."""
    roles: Annotated[tuple[Role, ...], Field(min_length=1)] = ROLES
    """In which roles; both without."""
    why: Annotated[str, Field(min_length=1)]
    """What the stack's public API lacks, in half a sentence."""


def asked_of(role: Role) -> tuple[TestcaseName, ...]:
    """The test cases that a role may be told."""
    return tuple(name for name in TESTCASES if ONE_SIDED.get(name, role) == role)
