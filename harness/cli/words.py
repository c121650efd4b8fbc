"""What the words of a command mean: a request, implementations. InputError for what they cannot mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness.cli.consoles import console
from harness.cli.environment import cores
from harness.cli.options import EngineChoice, KernelChoice
from harness.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from harness.app import App
    from harness.model import Implementation
    from harness.plan import Request, UntilDecided


def request_of(
    app: App,
    scenarios: list[str],
    clients: str,
    servers: str,
    repeat: int | UntilDecided | None,
    seed: int,
    engine: EngineChoice,
    kernel: KernelChoice,
    settings: list[str] | None,
    vary: list[str] | None = None,
    zipped: bool = False,
) -> Request:
    """What is asked for, as a plan is made of it."""
    from harness.parameters import ROLES
    from harness.plan import Request

    if engine == EngineChoice.VIRTUAL:
        if kernel == KernelChoice.HOST:
            raise InputError(
                "--sim-kernel host: virtual time needs the lab kernel", "leave it out, or use --engine compose"
            )
        kernel = KernelChoice.LAB
    absent = app.inventory.absent() if "all" in (clients, servers) else {}
    if absent:
        console().print(f"left out of 'all', not built here ('harness list' says why): {', '.join(absent)}")
    return Request(
        scenarios=app.catalogue.find_scenarios(scenarios),
        clients=app.catalogue.find_implementations(clients, "client", absent),
        servers=app.catalogue.find_implementations(servers, "server", absent),
        everybody=frozenset(role for role in ROLES if (clients if role == "client" else servers) == "all"),
        engine=engine.value,
        sim_kernel=kernel.value,
        repetitions=repeat,
        seed=seed,
        parameters=_once("--set", settings),
        vary={name: values.split(",") for name, values in _once("--vary", vary).items()},
        combine="zip" if zipped else None,
    )


def repetitions_of(text: str | None) -> int | UntilDecided | None:
    """What --repeat says."""
    from harness.plan import UntilDecided
    from harness.stats import ENOUGH

    if text is None:
        return None
    automatic, _, bound = text.partition(":")
    number = bound if automatic == "auto" else text
    if text == "auto":
        return UntilDecided()
    if not number.isdecimal() or int(number) < 1:
        raise InputError(f"--repeat {text}: expected a number, auto or auto:NUMBER", "for example --repeat 5")
    if automatic != "auto":
        return int(number)
    if int(number) < ENOUGH:
        raise InputError(
            f"--repeat {text}: no interval of fewer than {ENOUGH} repetitions decides",
            f"use --repeat auto:{ENOUGH} or more, or a plain number",
        )
    return UntilDecided(int(number))


def _once(option: str, words: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words or []:
        name, value = _assignment(option, word)
        if name in found:
            raise InputError(f"{option} {name} is given twice", "give all its values to --vary, separated by commas")
        found[name] = value
    return found


def _assignment(option: str, word: str) -> tuple[str, str]:
    """NAME and VALUE of one --set or --vary; the name is a known one."""
    from harness.sweep import dimensions, is_name

    name, equals, value = word.partition("=")
    if not equals or not value:
        raise InputError(f"{option} {word}: expected NAME=VALUE", f"for example {option} server.congestion_control=bbr")
    if not is_name(name):
        raise InputError(f"{option} {word}: nothing is called '{name}'", did_you_mean(name, dimensions()))
    return name, value


def contestants(app: App, words: str, *, generators: bool = False) -> tuple[dict[str, Implementation], dict[str, str]]:
    """Implementations by name, whatever they play, and those that 'all' leaves out: name → why."""
    absent = app.inventory.absent() if words == "all" else {}
    if generators and words == "all":
        return {name: one for name, (one, _) in app.catalogue.implementations().items() if name not in absent}, absent
    roles = [app.catalogue.find_implementations(words, role, absent) for role in ("client", "server")]
    return {item.name: item for found in roles for item in found}, absent


def jobs_of(asked: int | None, engine: EngineChoice) -> int:
    """How many runs side by side."""
    if engine == EngineChoice.VIRTUAL:
        return asked or cores()
    if asked not in (None, 1):
        raise InputError(f"--jobs {asked}: runs in real time would measure each other", "add --engine virtual")
    return 1


def one_of(option: str, word: str, known: Iterable[str]) -> str:
    """The word, which is a known one."""
    names = list(known)
    if word not in names:
        raise InputError(f"{option} {word}: there is no such thing", did_you_mean(word, names))
    return word


def span(option: str, text: str) -> tuple[float, float] | None:
    """Two times in seconds, of FROM-TO; None of nothing."""
    if not text:
        return None
    begin, _, end = text.partition("-")
    try:
        found = float(begin), float(end)
    except ValueError:
        found = (0.0, 0.0)
    if not 0 <= found[0] < found[1]:
        raise InputError(f"{option} {text}: expected FROM-TO, in seconds", f"for example {option} 21-24")
    return found
