"""The list of checks: what each is, declared above the function that does it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from harness.analysis.interop.evidence import Evidence
from harness.capture.quic.dissector import Packet


@dataclass(frozen=True)
class Passed:
    """It is as demanded; the sentence says what was seen."""

    sentence: str


@dataclass(frozen=True)
class Failed:
    """It is not."""

    sentence: str
    packet: Packet | None = None
    """The first that is wrong."""


@dataclass(frozen=True)
class Unknown:
    """It cannot be told."""

    sentence: str


Found = Passed | Failed | Unknown
Takes = Literal["a count", "true", "a word"]


@dataclass(frozen=True)
class Check:
    """One check."""

    name: str
    takes: Takes
    words: tuple[str, ...]
    """Those that it takes, of one that takes a word."""
    title: str
    """What it demands, in a line."""
    source: str
    """The RFC's section."""
    needs_keys: bool
    """Whether it looks at what is encrypted with secrets of the endpoints."""
    judge: Callable[[Evidence, Any], Found]

    @property
    def written(self) -> str:
        """How it is written in a scenario."""
        value = {"a count": "1", "true": "true", "a word": self.words[0] if self.words else ""}[self.takes]
        return f"{self.name}: {value}"


_DECLARED: dict[str, Check] = {}


def check(
    name: str, *, takes: Takes, title: str, source: str, words: tuple[str, ...] = (), needs_keys: bool = True
) -> Callable[[Callable[[Evidence, Any], Found]], Callable[[Evidence, Any], Found]]:
    """Declare the function below as a check. ValueError for a name that another one has."""

    def declare(judge: Callable[[Evidence, Any], Found]) -> Callable[[Evidence, Any], Found]:
        if name in _DECLARED:
            raise ValueError(f"the check {name} is declared twice")
        _DECLARED[name] = Check(name, takes, words, title, source, needs_keys, judge)
        return judge

    return declare


@cache
def _import_all() -> None:
    package = importlib.import_module("harness.analysis.interop.checks")
    for module in pkgutil.walk_packages(package.__path__, "harness.analysis.interop.checks."):
        importlib.import_module(module.name)


def declared() -> dict[str, Check]:
    """All checks by name, in alphabetical order."""
    _import_all()
    return dict(sorted(_DECLARED.items()))
