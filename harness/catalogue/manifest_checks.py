"""What a manifest says of parameters and no endpoint could be told: variables that are taken, line ends, defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.formatting import shown
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import PARAMETERS, ROLES, Parameter
from harness.scenario.schema import Implementation
from harness.scenario.validation_errors import Location, Mistake

#: What an endpoint has of the interop runner's contract, of our additions to it, and of whoever starts it.
_TAKEN = frozenset({
    "ROLE", "TESTCASE", "REQUESTS", "PROTOCOLS", "SSLKEYLOGFILE", "QLOGDIR", "CLIENT_PARAMS", "SERVER_PARAMS", "PEER",
    "TRAFFIC", "SESSION_DIR", "MOVES", "ADDRESSES", "ROUTES", "ASKED", "DRY_RUN", "PATH", "HOME", "HOSTNAME", "PWD",
    "SHELL", "USER", "IFS", "ENV", "BASH_ENV",
})  # fmt: skip
#: Variables of the dynamic linker (ld.so(8)): another program would run.
_LINKER = "LD_"
#: What ends a line, or is no letter: words of one command line have neither.
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def mistakes(implementation: Implementation) -> Iterator[Mistake]:
    """What of a manifest's parameters and variables cannot work."""
    for name in implementation.virtual_environment:
        yield from _taken(("virtual_environment", name), name, of_key=True)
    for name, text in implementation.virtual_environment.items():
        yield from _one_line(("virtual_environment", name), text)
    for name, settings in implementation.parameters.items():
        seen: list[Setting] = []
        for role in ROLES:
            setting = settings.of(role)
            if setting is None or setting in seen:
                # What holds for both is said once.
                continue
            seen.append(setting)
            yield from _setting(("parameters", name, role), PARAMETERS[name], setting)


def _setting(where: Location, parameter: Parameter, setting: Setting) -> Iterator[Mistake]:
    for key in ("flag", "environment", "sysctl", "asks"):
        yield from _one_line((*where, key), getattr(setting, key))
    own = setting.values.values() if isinstance(setting.values, dict) else setting.values or ()
    for word in own:
        yield from _one_line((*where, "values"), word)
    if setting.environment is not None:
        yield from _taken((*where, "environment"), setting.environment.partition("=")[0])
    default = None if setting.default is None else parameter.number(parameter.canonical(setting.default))
    for bound, sign, side in ((setting.minimum, 1, "below the minimum"), (setting.maximum, -1, "above the maximum")):
        limit = None if bound is None else parameter.number(parameter.canonical(bound))
        # An image may start from what it cannot be told (tquic from 1200 B): then somebody has looked, and says so.
        if default is not None and limit is not None and sign * default < sign * limit and not setting.note.strip():
            text = f"the default {setting.default} is {side} {bound}, and no note says why"
            yield Mistake((*where, "default"), text, "correct one of the two, or add a note")


def _taken(where: Location, name: str, *, of_key: bool = False) -> Iterator[Mistake]:
    if name in _TAKEN or name.startswith(_LINKER):
        text = f"{name} is what every endpoint has, and would be another"
        yield Mistake(where, text, "let the image read a variable of its own", of_key)


def _one_line(where: Location, text: str | None) -> Iterator[Mistake]:
    if text is not None and (wrong := _CONTROL.search(text)):
        text = f"{shown(text)} has the character U+{ord(wrong[0]):04X}, and is a word of one line"
        yield Mistake(where, text, "write it on one line, without tabs")
