"""How our clients read what they are told of moves: aioquic's, whose program is in Python."""

from __future__ import annotations

import asyncio
import socket
from types import ModuleType

import pytest

from tests.examples import image_module


@pytest.fixture(scope="module")
def moves() -> ModuleType:
    """The module of the image, which no package of ours contains."""
    return image_module("aioquic/endpoint/moves.py")


def test_moves_are_read_as_the_contract_says(moves: ModuleType) -> None:
    first, second = moves.parse("0.2,interface,193.167.1.100,fd00::1;7,interface,193.167.0.100,")
    assert (first.at, second.at) == (0.2, 7.0)
    assert first.address(socket.AF_INET6) == "fd00::1" and second.address(socket.AF_INET) == "193.167.0.100"
    with pytest.raises(OSError, match="no address of the connection's family"):
        second.address(socket.AF_INET6)


@pytest.mark.parametrize(
    "text",
    [
        "0.2,interface,193.167.1.100", "soon,interface,193.167.1.100,", "-1,interface,193.167.1.100,",
        "nan,interface,193.167.1.100,", "0.2,migrate,193.167.1.100,", "0.2,interface,193.167.1,", "0.2,interface,,",
        "0.2,interface,193.167.1.100,;0.2,interface,193.167.0.100,",
    ],
)  # fmt: skip
def test_moves_that_are_wrong_are_refused_in_one_line(moves: ModuleType, text: str) -> None:
    with pytest.raises(OSError, match=r"^MOVES: ") as refused:
        moves.parse(text)
    assert "\n" not in str(refused.value)


def test_moves_are_made_in_time_and_after_the_handshake(
    moves: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    schedule = "0.02,interface,127.0.0.1,;0.06,interface,127.0.0.2,;60,interface,127.0.0.3,"
    monkeypatch.setenv("MOVES", schedule)
    moved: list[tuple[float, str]] = []

    async def travel() -> None:
        journey = moves.Journey()
        loop = asyncio.get_running_loop()
        journey.begin()
        zero = loop.time()

        event = asyncio.Event()

        async def move(to: object) -> str:
            moved.append((loop.time() - zero, to.address(socket.AF_INET)))  # type: ignore[attr-defined]
            if len(moved) == 2:
                event.set()
            return "there"

        answers = iter([False])
        task = asyncio.create_task(journey.travel(lambda: next(answers, True), move))
        await event.wait()
        await asyncio.sleep(0)
        task.cancel()
        assert journey.address(socket.AF_INET) == "127.0.0.2", "where another connection begins"
        journey.end()

    asyncio.run(travel())
    (first, first_address), (second, second_address) = moved
    assert (first_address, second_address) == ("127.0.0.1", "127.0.0.2") and first >= 0.02 and second >= 0.06
    log_lines = capsys.readouterr().err.splitlines()
    assert log_lines[0].endswith("told to at 0.02 s, as soon as the handshake was confirmed")
    assert log_lines[1].endswith("told to at 0.06 s") and log_lines[2].endswith(
        "no interface at 60 s: the client was done before"
    )
