"""Validation of the new path (RFC 9000 §8.2), and what the client's first packet from there was: decrypted packets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from harness.analysis.handover.wire import EARLY, Moved
from harness.capture.key_log import Sender
from harness.capture.quic.frames import PADDING, PATH_CHALLENGE, PATH_RESPONSE, Frames

#: NEW_CONNECTION_ID is the fourth (RFC 9000 §9.1).
_PROBING = frozenset((PADDING, 0x18, PATH_CHALLENGE, PATH_RESPONSE))


@dataclass(frozen=True)
class Validation:
    """A PATH_CHALLENGE that was answered."""

    asked_ns: int
    """It left its sender."""
    answered_ns: int
    """The matching PATH_RESPONSE came."""

    @property
    def seconds(self) -> float:
        """How long that took."""
        return (self.answered_ns - self.asked_ns) / 1e9


def validation(moved: Moved, by: Sender) -> Validation | None:
    """The first challenge of an endpoint on the new path that was answered; None without one, or without keys.

    RFC 9002 §6.2.2 lets its time be the first estimate of the round trip.
    """
    asked = list(_both(moved, by))
    answers = {data: when for when, frames in _both(moved, _other(by)) for data in frames.responses}
    for when, frames in asked:
        for data in frames.challenges:
            if data in answers and answers[data].came_ns >= when.left_ns:
                return Validation(when.left_ns, answers[data].came_ns)
    # An answer to what could not be read is one to the padding that came before it.
    read = {data for _, frames in asked for data in frames.challenges}
    first = min((when.left_ns for data, when in answers.items() if data not in read), default=None)
    for when, frames in asked:
        if first is not None and _hides(frames) and when.came_ns <= first:
            return Validation(when.left_ns, next(one.came_ns for one in answers.values() if one.left_ns == first))
    return None


def _hides(frames: Frames) -> bool:
    """Whether there is nothing but padding as far as a packet could be read: quic-go pads in front of the frames."""
    return frames.types == (PADDING,) and frames.hidden > 0


def probed(moved: Moved) -> bool | None:
    """Whether the client's first packet on the new path was a probe; None where it could not be read."""
    if moved.first is None or not moved.known_to_client:
        return None
    for opened in moved.view.opened(moved.window, "client"):
        rows = np.flatnonzero(opened.key == moved.first.key[0])
        if len(rows):
            frames = opened.frames[rows[0]]
            if _hides(frames):
                return validation(moved, "client") is not None
            return PATH_CHALLENGE in frames.types and _PROBING.issuperset(frames.types)
    return None


@dataclass(frozen=True)
class _Passed:
    """One packet on its way, ns."""

    left_ns: int
    came_ns: int


def _other(sender: Sender) -> Sender:
    return "client" if sender == "server" else "server"


def _both(moved: Moved, sender: Sender) -> Iterator[tuple[_Passed, Frames]]:
    """The packets that an endpoint sent on the new path that have probes, or may: when they left it and came.

    Packets are read at the client's side, where those that got lost on the way to it are not.
    """
    passage = moved.to_client if sender == "server" else moved.to_server
    if passage is None:
        return
    rows = {key: row for row, key in enumerate(passage.entered.key.tolist())}
    new = moved.to_new(passage) if sender == "server" else moved.from_new(passage)
    for opened in moved.view.opened(moved.window, sender):
        for key, frames in zip(opened.key.tolist(), opened.frames, strict=True):
            if key not in rows or not (frames.challenges or frames.responses or _hides(frames)):
                continue
            row = rows[key]
            passed = _Passed(int(passage.entered.t_ns[row]), int(passage.out_ns[row]))
            inside = moved.asked_ns - EARLY <= passed.left_ns < moved.until_ns
            if passed.came_ns >= 0 and inside and new[row]:
                yield passed, frames
