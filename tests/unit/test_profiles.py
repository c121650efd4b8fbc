"""Profiles of links: what is shipped, what a path makes of a name, and what stands beside it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from harness.netem import find_inexpressible
from harness.scenario.schema import PROFILES, Path, fixed, profile_references, profile_title
from harness.units import Duration
from tests.examples import scenario


def path(**keys: Any) -> Path:
    return Path.model_validate(keys)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_a_path_with_a_title_and_sources(name: Any) -> None:
    profile_path = path(profile=name)
    assert find_inexpressible(profile_path, Duration.parse("120 s")) is None
    assert profile_title(name) and all(len(reference) > 20 for reference in profile_references(name))
    # What is stored has the values, and reads as the same path.
    content = profile_path.model_dump(mode="json", by_alias=True)
    assert content["profile"] is None and Path.model_validate(content) == profile_path


def test_leo_is_another_link_every_15_s() -> None:
    profile_path = path(profile="leo")
    (change,) = profile_path.changes
    assert change.at == change.every == Duration.parse("15 s")
    assert change.forward is not None and {*change.forward.ranges} == {"rate", "delay"}
    assert profile_path.blackhole is not None and profile_path.blackhole.every == change.every
    assert profile_path.draws and scenario(path=profile_path).path == profile_path


def test_what_stands_beside_a_name_comes_first() -> None:
    profile_path = path(profile="leo", forward={"rate": "100 Mbit/s", "queue": "1 BDP"}, terminal="server")
    assert (
        str(profile_path.forward.rate) == "100 Mbit/s"
        and profile_path.forward.delay == path(profile="leo").forward.delay
    )
    assert str(profile_path.forward.queue.capacity) == "1 BDP" and profile_path.terminal == "server"
    # It holds from beginning to end; the delay goes on changing, and so does the other direction's rate.
    (change,) = profile_path.changes
    assert change.forward is not None and change.forward.named == ("delay",)
    assert change.return_ is not None and change.return_.named == ("rate", "delay")


def test_changes_beside_a_name_take_the_place_of_its_own() -> None:
    steady = path(profile="leo", changes=[], blackhole=None)
    assert steady.is_plain and not steady.changes and steady.blackhole is None
    own = path(profile="leo", changes=[{"at": "9 s", "forward": {"rate": "1 Mbit/s"}}])
    assert [str(fixed(change.forward.rate)) for change in own.changes if change.forward] == ["1 Mbit/s"]
    assert not path(profile="lte", forward={"rate": "9 Mbit/s"}, **{"return": {"rate": "9 Mbit/s"}}).changes


def test_a_name_that_is_none_is_the_only_error() -> None:
    with pytest.raises(ValidationError) as failure:
        path(profile="loe")
    (error,) = failure.value.errors()
    assert error["loc"] == ("profile",)


def test_a_path_without_a_profile_needs_its_directions() -> None:
    with pytest.raises(ValidationError, match="return"):
        path(forward={"rate": "1 Mbit/s", "delay": "1 ms"})
