"""Conducts the endpoints of a lab in real time: performs the lifecycle's actions on containers, and notes their ends.

Its counterpart in virtual time is images/sim/simulator/conductor.py.
"""

from __future__ import annotations

import contextlib
import ipaddress
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from simulator.lifecycle import Action, CutOff, Ended, Enter, Flow, Lifecycle, Start, TimedOut

from harness.engine import exit_rules
from harness.engine.docker.containers import Death
from harness.engine.docker.sampler import Sampler
from harness.engine.external_failures import ExternalFailure
from harness.engine.fence import FENCE
from harness.engine.run_dir import read_events
from harness.outcome import Outcome, Transfer
from harness.topology import CLIENT_END, SERVER_WAIT, Lab

#: Seconds after which the simulator should have reported that the path is up, or why not.
_READY_WAIT = 2 * SERVER_WAIT + 15
#: Seconds between two polls of what has no events: readiness and a client's first datagram; the shell of a waiting
#: client; the size of logs.
_LOOK_READY, _LOOK_HELD, _LOOK = 0.05, 0.001, 0.25


class Containers(Protocol):
    """The containers of the endpoints; see `harness.engine.docker.containers.Project`."""

    def next_death(self, timeout: float) -> Death | None:
        """The next container that ended. Waits at most `timeout` seconds; None where none ended."""
        ...

    def release(self, service: str) -> bool:
        """Start a client that waits; False while its shell is not there yet."""
        ...

    def start_again(self, service: str) -> None:
        """Start a container again that has ended."""
        ...

    def tell(self, *services: str) -> None:
        """Tell containers to end, without waiting."""
        ...

    def befell(self, service: str) -> ExternalFailure | None:
        """The external failure of a container; None where none is known."""
        ...


class Clock(Protocol):
    """A clock, such as the module `time`."""

    def monotonic(self) -> float:
        """Seconds."""
        ...

    def time_ns(self) -> int:
        """Time since the epoch, ns."""
        ...


def lifecycle_flows(lab: Lab) -> list[Flow]:
    """The flows of a lab, as the lifecycle takes them."""
    return [
        Flow(
            flow.client,
            flow.server,
            flow.start,
            flow.stop if flow.cut_off else None,
            flow.repeat_after,
            lab.time_limit(flow),
            lab.patience(flow),
            CLIENT_END,
        )
        for flow in lab.flows
    ]


class Conductor:
    """The endpoints of one lab, from the moment its containers are up."""

    def __init__(
        self,
        lab: Lab,
        folder: Path,
        containers: Containers,
        sampler: Sampler,
        enter: Callable[[str], None],
        clock: Clock = time,
    ) -> None:
        """`folder`: the run's; `enter`: called with the name of each phase that begins."""
        self.blamed = "sim"
        """The host whose log says more about what happened."""
        self._lab = lab
        self._folder = folder
        self._containers = containers
        self._sampler = sampler
        self._enter = enter
        self._clock = clock
        self._flows = {flow.client: flow for flow in lab.flows}
        self._lifecycle = Lifecycle(lifecycle_flows(lab), self._is_whole)
        self._clients = {
            str(ipaddress.ip_address(address)): flow.client
            for flow in lab.flows
            for address in lab.host(flow.client).addresses
        }
        self._ready = False
        self._simulators = [simulator.name for simulator in lab.simulators]
        self._heard = dict.fromkeys(self._simulators, 0)
        """Simulator → number of its events that were handled."""
        self._held: list[str] = []
        """Clients that should start, and whose shell does not read the pipe yet."""
        self._started_ns: dict[str, int] = {}
        self._transfers: list[Transfer] = []
        self._outcome: Outcome | None = None

    @property
    def transfers(self) -> list[Transfer]:
        """The transfers that came to an end, by flow."""
        return sorted(self._transfers, key=lambda item: (item.flow, item.index))

    def begin(self) -> None:
        """Begin the lifecycle: all containers were started just now."""
        self._perform(self._lifecycle.begin(self._clock.monotonic()))

    def watch(self) -> Outcome:
        """Follow the lab until every flow is done or something ends it."""
        started_at = self._clock.monotonic()
        while not self._over():
            now = self._clock.monotonic()
            if not self._ready:
                self._look_for_ready(now, started_at)
            elif self._lifecycle.awaited:
                self._look_for_openings()
            if self._sampler.overflowed is not None:
                self._decide(
                    self._sampler.overflowed, exit_rules.log_overflow_outcome(self._lab.host(self._sampler.overflowed))
                )
            if self._outcome is None:
                self._perform(self._lifecycle.due(now))
                self._release()
            if not self._over():
                self._hear(self._until_next(now))
        return self._from_outside() or self._outcome or Outcome(status="completed")

    def _from_outside(self) -> Outcome | None:
        """The outcome of an external failure, if there is one. It explains what the containers did because of it."""
        proxies = [proxy.name for proxy in self._lab.proxies]
        for name in (*self._simulators, *proxies, *(host.name for host in self._lab.hosts)):
            if (external := self._containers.befell(name)) is not None:
                self.blamed = name
                infrastructure = name in self._simulators or name in proxies
                return exit_rules.external_outcome("sim" if infrastructure else self._lab.host(name).role, external)
        return None

    def _over(self) -> bool:
        return self._outcome is not None or self._lifecycle.over

    def _decide(self, blamed: str, outcome: Outcome) -> None:
        """End the run with an outcome. Only the first call counts."""
        if self._outcome is None:
            self.blamed, self._outcome = blamed, outcome

    # --- what happens

    def _look_for_ready(self, now: float, started_at: float) -> None:
        diaries = (read_events(self._folder, simulator=name) for name in self._simulators)
        if all(any(event["event"] == "ready" for event in events) for events in diaries):
            self._ready = True
            self._perform(self._lifecycle.ready(now))
        elif now - started_at > _READY_WAIT:
            self._decide("sim", exit_rules.simulator_outcome("", "the simulator was not ready in time"))

    def _look_for_openings(self) -> None:
        """Find the first datagram of each transfer in the simulators' events. Its time begins with that datagram."""
        new_events: list[dict[str, Any]] = []
        for name in self._simulators:
            events = read_events(self._folder, simulator=name)
            new_events += events[self._heard[name] :]
            self._heard[name] = len(events)
        for event in new_events:
            if event["event"] == "opened" and (client := self._clients.get(event["address"])) is not None:
                ago = self._clock.time_ns() / 1e9 - event["t"]
                self._perform(self._lifecycle.began(client, self._clock.monotonic() - ago))

    def _is_whole(self, client: str) -> bool:
        """Whether a client's file has all its bytes."""
        flow = self._flows[client]
        return bool(flow.file) and self._received(client) >= flow.size

    def _received(self, client: str) -> int:
        """Bytes of a client's file so far."""
        flow = self._flows[client]
        try:
            # The size of a link itself: a link is no downloaded file.
            return (self._folder / f"flow{flow.flow}" / "downloads" / flow.file).lstat().st_size if flow.file else 0
        except FileNotFoundError:
            return 0

    def _until_next(self, now: float) -> float:
        """Seconds to wait for a death, until the next action is due or the next poll."""
        wake = self._lifecycle.wake
        awaits = not self._ready or self._lifecycle.awaited
        looks = [_LOOK_READY if awaits else _LOOK, *([_LOOK_HELD] if self._held else [])]
        return max(_LOOK_HELD, min([*looks, *([] if wake is None else [wake - now])]))

    def _hear(self, timeout: float) -> None:
        """Wait for a container's end, and handle all ends so far."""
        death = self._containers.next_death(timeout)
        while death is not None and not self._over():
            if death.service in self._simulators:
                self._decide(*self._sim_died(death))
                return
            if death.service == FENCE:
                detail = "the lab's networks are open to this machine: their fence ended. Give the same command again"
                self._decide("sim", Outcome(status="infrastructure", role="sim", reason="killed", detail=detail))
                return
            if any(proxy.name == death.service for proxy in self._lab.proxies):
                message = f"{death.service} ended with exit code {death.exit_code}"
                self._decide(death.service, exit_rules.proxy_outcome(message))
                return
            ago = (self._clock.time_ns() - death.at_ns) / 1e9
            actions = self._lifecycle.ended(death.service, death.exit_code, self._clock.monotonic() - ago)
            self._perform(actions, death.at_ns)
            death = self._containers.next_death(0)

    def _sim_died(self, death: Death) -> tuple[str, Outcome]:
        events = read_events(self._folder, simulator=death.service)
        failed = next((event for event in reversed(events) if event["event"] == "failed"), None)
        if failed is None:
            message = f"the simulator ended with exit code {death.exit_code}"
            return death.service, exit_rules.simulator_outcome("", message, death.exit_code)
        outcome = exit_rules.simulator_outcome(failed["reason"], failed["message"], death.exit_code)
        # Blame the first server, where one did not answer.
        return next((host.name for host in self._lab.hosts if host.role == outcome.role), death.service), outcome

    # --- what is done

    def _perform(self, actions: Sequence[Action], ended_ns: int = 0) -> None:
        """Perform the lifecycle's actions. `ended_ns`: end of the endpoint whose end led to them."""
        for action in actions:
            match action:
                case Start(host, index):
                    self._start(host, index)
                case Ended(host, index, exit_code):
                    self._note_end(host, index, exit_code, ended_ns)
                case CutOff(client, server, index):
                    at_ns = self._clock.time_ns()
                    self._containers.tell(client, server)
                    self._record(client, index, at_ns, cut_off=True)
                case TimedOut(client, index, stage):
                    self._record(client, index, self._clock.time_ns(), received=self._received(client))
                    limit = self._lab.time_limit(self._flows[client])
                    self._decide(client, exit_rules.timeout_outcome(self._lab.host(client), limit, stage))
                case Enter(phase):
                    self._enter(phase)

    def _start(self, host: str, index: int) -> None:
        flow = self._flows.get(host)
        if flow is None:
            # Servers are up with everything else.
            return
        if index:
            self._containers.start_again(host)
            self._note_start(host, index)
        elif flow.start > 0:
            self._held.append(host)
        else:
            self._note_start(host, index)

    def _release(self) -> None:
        for client in [client for client in self._held if self._containers.release(client)]:
            self._held.remove(client)
            self._note_start(client, 0)

    def _note_start(self, client: str, index: int) -> None:
        self._started_ns[client] = self._clock.time_ns()
        flow = self._flows[client]
        if flow.file:
            self._sampler.watch_download(self._folder / f"flow{flow.flow}" / "downloads", flow.flow, index)

    def _note_end(self, name: str, index: int, exit_code: int, at_ns: int) -> None:
        host = self._lab.host(name)
        outcome = exit_rules.exit_outcome(host, self._lab.flows[host.flow], exit_code)
        if host.role == "client":
            self._record(name, index, at_ns, exit_code)
        if outcome is not None:
            self._decide(name, outcome)

    def _record(
        self,
        client: str,
        index: int,
        at_ns: int,
        exit_code: int | None = None,
        *,
        cut_off: bool = False,
        received: int = 0,
    ) -> None:
        """Note a transfer that is over, and make room for a repeat. `received`: bytes, where it timed out."""
        flow = self._flows[client]
        if client in self._held:
            self._held.remove(client)
        if flow.file:
            self._sampler.unwatch_download(flow.flow)
            place = self._folder / f"flow{flow.flow}" / "downloads" / flow.file
            with contextlib.suppress(FileNotFoundError):
                place.rename(exit_rules.received_file(self._folder, flow.flow, index))
        self._transfers.append(
            Transfer(
                flow=flow.flow,
                index=index,
                size=flow.size,
                # A transfer that never started has no duration.
                started_ns=self._started_ns.get(client, at_ns),
                ended_ns=at_ns,
                exit_code=exit_code,
                cut_off=cut_off,
                received=received,
            )
        )
