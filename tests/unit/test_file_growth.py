"""How clients' files grow, as the process inside the lab kernel writes it down."""

from __future__ import annotations

import io
import select
from collections.abc import Iterator
from pathlib import Path

import pytest
from simulator.growth import HEADER, LOOK, REST, Growth

from harness.capture.counters import read_growth, transfer_growth

PERIOD = 2_000_000


class Bench:
    """A sampler, its ticks in our hands."""

    def __init__(self, folder: Path) -> None:
        self.rows = io.StringIO()
        self.growth = Growth(self.rows, PERIOD, 0)
        self.tick = 0
        self.folder = folder
        self.checked_at = 0

    def has_event(self) -> bool:
        """Whether the kernel says that something happened."""
        return bool(select.select([self.growth], [], [], 0)[0])

    def advance(self, tick: int) -> None:
        """As the process does it: at rest it comes when something happened, and not before the next tick."""
        while self.tick < tick:
            if self.growth.resting and not self.has_event():
                self.tick = tick
                self.growth.rested(tick * PERIOD)
                return
            self.tick += 1
            self.checked_at += 1
            self.growth.sample(self.tick * PERIOD)

    def write(self, name: str, size: int) -> None:
        with (self.folder / name).open("ab", buffering=0) as file:
            file.write(bytes(size))

    @property
    def samples(self) -> list[tuple[int, ...]]:
        """(tick, flow, transfer, bytes)"""
        rows = (tuple(map(int, line.split(","))) for line in self.rows.getvalue().splitlines())
        return [(time // PERIOD, *rest) for time, *rest in rows]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    growth_bench = Bench(tmp_path)
    growth_bench.growth.watch(tmp_path, 3, 1, 0)
    yield growth_bench
    growth_bench.growth.close()


def test_growth_lies_between_two_rows_and_nobody_looks_where_there_is_none(bench: Bench) -> None:
    bench.advance(1000)
    bench.write("f", 10)
    bench.advance(1001)
    bench.write("f", 5)
    bench.advance(2000)
    bench.write("f", 1)
    bench.advance(3000)
    assert bench.samples == [
        (0, 3, 1, 0), (1000, 3, 1, 0), (1001, 3, 1, 10), (1002, 3, 1, 15), (2000, 3, 1, 15), (2001, 3, 1, 16),
    ]  # fmt: skip
    assert bench.checked_at <= 2 * (REST + 2)


def test_it_writes_what_one_who_looks_at_every_tick_would(tmp_path: Path) -> None:
    sizes = {5: 100, 6: 200, 20: 1, 21: 4, 28: 7, 29 + REST: 1, 30 + 2 * REST: 9}
    bench = Bench(tmp_path)
    bench.growth.watch(tmp_path, 0, 0, 0)
    for tick, size in sizes.items():
        bench.advance(tick)
        bench.write("f", size)
    bench.advance(100)
    expected, total = [(0, 0)], 0
    for tick, size in sizes.items():
        expected += [(tick, total)] if expected[-1][0] != tick else []
        total += size
        expected.append((tick + 1, total))
    assert [(row[0], row[3]) for row in bench.samples] == expected
    bench.growth.close()


def test_files_are_added_and_a_renamed_one_is_the_same(bench: Bench) -> None:
    bench.write("a.part", 10)
    bench.advance(1)
    (bench.folder / "a.part").rename(bench.folder / "a")
    bench.advance(2)
    bench.write("b", 7)
    bench.advance(3 + LOOK // PERIOD)
    bench.write("a", 1)
    bench.advance(100)
    assert [row[3] for row in bench.samples][-1] == 18
    assert max(row[3] for row in bench.samples) == 18


def test_the_last_sample_has_what_was_written_at_the_end(bench: Bench) -> None:
    bench.write("f", 10)
    bench.advance(1)
    bench.advance(3)
    bench.write("f", 90)
    # It had ended before the order was read.
    bench.growth.end(3, 3 * PERIOD + 5, 100)
    bench.advance(50)
    assert bench.samples == [(0, 3, 1, 0), (1, 3, 1, 10), (3, 3, 1, 10), (3, 3, 1, 100)]
    assert bench.growth.resting


def test_several_flows_have_rows_of_their_own_and_a_repeat_has_others(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    folders = [tmp_path / name for name in ("one", "other")]
    for flow, folder in enumerate(folders):
        folder.mkdir()
        bench.growth.watch(folder, flow, 0, 0)
    for number in range(1, 40):
        bench.write("one/f", 10)
        if number % 20 == 0:
            bench.write("other/f", 1)
        bench.advance(number)
    bench.growth.end(1, 39 * PERIOD, 1)
    (folders[1] / "f").rename(tmp_path / "transfer0")
    bench.growth.watch(folders[1], 1, 1, 39 * PERIOD)
    bench.advance(60)
    bench.write("other/f", 2)
    bench.advance(70)
    csv = tmp_path / "growth.csv"
    csv.write_text(HEADER + bench.rows.getvalue())
    frame = read_growth(csv)
    growth, other, repeat = (transfer_growth(frame, *which) for which in ((0, 0), (1, 0), (1, 1)))
    assert growth.size[-1] == 390
    moment = other.time_of(1, 0)
    assert moment is not None
    assert (moment.after_ns, moment.before_ns) == (19 * PERIOD, 20 * PERIOD)
    again = repeat.time_of(2, 39 * PERIOD)
    assert again is not None
    assert (again.after_ns, again.before_ns) == (60 * PERIOD, 61 * PERIOD)
    assert repeat.size[0] == 0
    bench.growth.close()


def test_a_file_that_was_removed_at_once_is_nobodys_failure(bench: Bench) -> None:
    for number in range(3):
        bench.write("f", 1)
        (bench.folder / "f").unlink()
        bench.advance(number + 1)
    assert {row[3] for row in bench.samples} <= {0, 1}
