"""The connection of a driver to a Dask cluster: enrols workers, submits runs and fetches answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from typing import Any

from harness.errors import EngineError
from harness.execution.cluster.image_transfer import ParcelSource
from harness.execution.cluster.messages import (
    CORE,
    MEMORY,
    REQUEST_TOPIC,
    RunAnswer,
    RunOrder,
    WorkerInfo,
    package_digest,
    version_text,
)
from harness.execution.cluster.worker import deliver, dismiss, enrol, make_run

#: Seconds to wait for an answer of the scheduler.
ANSWER_TIMEOUT = 20.0
#: Seconds to wait for announced answers.
FETCH_TIMEOUT = 30.0
#: Seconds between two checks whether the worker that has an answer still exists.
_CHECK_INTERVAL = 0.5
#: Number of workers that are sent files in parallel.
_SENDERS = 4
#: Number of answers that are fetched at once if each may be large.
_MAX_LARGE_ANSWERS = 4
#: Number of runs that are submitted, and of small answers that are fetched, in one message.
_BATCH_SIZE = 64
#: Seconds between two checks for tasks that have ended.
_POLL_INTERVAL = 0.02

#: Errors of `distributed` for a task or a result that it no longer has.
_LOST_ERRORS = frozenset({"CancelledError", "FutureCancelledError", "CommClosedError"})

#: State of a task that the scheduler no longer knows, because the connection was lost.
_FORGOTTEN = "cancelled"
#: States of a task that is under way. A "lost" one has lost its answer with a worker, and Dask makes it again.
_UNDER_WAY = frozenset({"pending", "lost"})

Work = Callable[[RunOrder], RunAnswer]


class LostConnectionError(EngineError):
    """The scheduler no longer answers."""


class ClusterConnection:
    """The workers and tasks of one connection to a scheduler."""

    def __init__(
        self,
        address: str,
        security: Any,
        image_source: ParcelSource,
        say: Callable[[str], object],
        work: Work = make_run,
    ) -> None:
        """`security`: of `distributed`, None without TLS; `say`: gets a text for each refused worker.

        EngineError if no scheduler answers.
        """
        from distributed import Client

        self._image_source = image_source
        self._warn = say
        self._work = work
        self.workers: dict[str, WorkerInfo] = {}
        """Enrolled workers, by address."""
        self._excluded: set[str] = set()
        """Addresses of refused or dismissed workers."""
        self.version_mismatches = 0
        """Number of workers that were refused because they run another version of this package."""
        self._queued: dict[tuple[int, tuple[str, ...] | None], list[tuple[str, RunOrder, float]]] = {}
        """Queued runs by batch, in the order of `queue_run`: (memory, workers) → (key, order, seconds)."""
        self._tasks: dict[str, Any] = {}
        """Key → future of a submitted task without an answer."""
        self._lost_answers: set[str] = set()
        """Keys of tasks whose answers were lost with a worker."""
        self._unassigned: set[str] = set()
        """Keys of tasks that no worker had at the last check."""
        self._closed = False
        self._senders = ThreadPoolExecutor(_SENDERS, thread_name_prefix="parcel")
        try:
            # Untyped in `distributed`.
            client: Any = Client
            self._client = client(
                address, security=security, timeout=ANSWER_TIMEOUT, set_as_default=False, name="quic-lab"
            )
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            raise EngineError(
                f"no scheduler answers at {address}: {error or type(error).__name__}",
                "start one ('harness cluster scheduler', or 'dask scheduler'), and check TLS on both sides",
            ) from error
        self._scheduler_id = self._read_scheduler_id()
        self.name = str(self._client.id)
        self._client.subscribe_topic(f"{REQUEST_TOPIC}{self.name}", self._handle_request)

    def _read_scheduler_id(self) -> str:
        return str(self._call(lambda: self._client.scheduler_info(n_workers=0))["id"])

    # --- workers

    def update_workers(self) -> bool:
        """Enrol new workers, and forget those that left; returns whether tasks may have lost their workers.

        Raises LostConnectionError.
        """
        worker_cores = self._call(self._client.ncores)
        # Dask reconnects by itself, but a new scheduler does not know earlier requests.
        if self._read_scheduler_id() != self._scheduler_id or any(
            future.status == _FORGOTTEN for future in self._tasks.values()
        ):
            raise LostConnectionError("the connection to the scheduler was lost")
        departed = self.workers.keys() - worker_cores.keys()
        for address in departed:
            del self.workers[address]
        self._excluded &= worker_cores.keys()
        new = [address for address in worker_cores if address not in self.workers and address not in self._excluded]
        if new:
            replies = self._call(lambda: self._client.run(enrol, package_digest(), workers=new, on_error="return"))
            for address in new:
                self._enrol(address, replies.get(address))
        self._lost_answers = {
            key for key, future in self._tasks.items() if future.status == "lost" or key in self._lost_answers
        }
        return bool(departed or new or self._lost_answers or self._unassigned)

    def _enrol(self, address: str, reply: Any) -> None:
        if isinstance(reply, Mapping) and "cores" in reply:
            self.workers[address] = WorkerInfo(address, reply["host"], int(reply["cores"]), int(reply["memory"]))
            return
        if isinstance(reply, OSError) or reply is None:
            # It left during the enrolment; if it comes back, it is enrolled again.
            return
        self._excluded.add(address)
        if isinstance(reply, Mapping):
            why = (
                f"on {reply['host']} has another version of this package, {reply['refused']}, and this is "
                f"{version_text()}"
            )
            self.version_mismatches += 1
        elif isinstance(reply, ImportError | AttributeError):
            why = f"does not have this package, or an older version of it; this is {version_text()}"
        else:
            why = f"cannot take part: {type(reply).__name__}: {reply}"
        self._warn(f"the worker {address} {why}: it gets nothing to do")

    def exclude(self, address: str) -> list[str]:
        """Exclude a worker from new tasks, and cancel its tasks; returns their keys."""
        self.workers.pop(address, None)
        self._excluded.add(address)
        with suppress(LostConnectionError):
            self._call(lambda: self._client.run(dismiss, package_digest(), workers=[address], on_error="ignore"))
            processing = self._call(lambda: self._client.processing([address]))
            return self.cancel(key for keys in processing.values() for key in keys if key in self._tasks)
        return []

    @property
    def cores(self) -> int:
        """Number of cores of all enrolled workers."""
        return sum(member.cores for member in self.workers.values())

    # --- tasks

    def queue_run(
        self, key: str, order: RunOrder, seconds: float, memory: int, workers: Collection[str] | None = None
    ) -> None:
        """Queue a run, for some of the workers if `workers` is given. `seconds`: longer runs come first.

        The next `submit_queued` sends it.
        """
        allowed = None if workers is None else tuple(sorted(workers))
        self._queued.setdefault((memory, allowed), []).append((key, order, seconds))

    def submit_queued(self) -> None:
        """Send the queued runs, many in one message, which costs less per run. Raises LostConnectionError."""
        batches, self._queued = self._queued, {}
        for (memory, allowed), runs in batches.items():
            resources = {f"{CORE}{package_digest()}": 1, f"{MEMORY}{package_digest()}": memory}
            for first in range(0, len(runs), _BATCH_SIZE):
                self._submit(runs[first : first + _BATCH_SIZE], resources, allowed)

    def _submit(
        self,
        runs: Sequence[tuple[str, RunOrder, float]],
        resources: Mapping[str, float],
        allowed: Collection[str] | None,
    ) -> None:
        keys, orders = [key for key, _, _ in runs], [order for _, order, _ in runs]
        # The runs are in order, the longest first.
        futures = self._call(
            lambda: self._client.map(
                self._work,
                orders,
                key=keys,
                pure=False,
                priority=runs[0][2],
                resources=resources,
                workers=None if allowed is None else list(allowed),
            )
        )
        self._tasks |= zip(keys, futures, strict=True)

    def cancel(self, keys: Any) -> list[str]:
        """Cancel tasks; returns the keys of those that were under way."""
        active = [key for key in list(keys) if key in self._tasks]
        if not active:
            return []
        with suppress(Exception):
            self._client.cancel([self._tasks.pop(key) for key in active], force=True)
        return active

    def unassigned_tasks(self) -> list[str]:
        """Keys of unfinished tasks that no worker has: the workers that could make them left before others joined.

        Two checks in a row must find a task so: it may be on its way to the scheduler, or its end not yet known here.
        """
        processing = self._call(self._client.processing)
        running = {key for keys in processing.values() for key in keys}
        unassigned = [key for key, future in self._tasks.items() if key not in running and future.status in _UNDER_WAY]
        strays = [key for key in unassigned if key in self._unassigned]
        self._unassigned = set(unassigned) - set(strays)
        return strays

    def wait(self, seconds: float, large: bool) -> list[tuple[str, RunAnswer | BaseException]]:
        """Wait up to `seconds` for tasks that have ended; returns key and answer, or error, of each.

        `large`: answers have artefacts. Raises LostConnectionError.
        """
        deadline = time.monotonic() + seconds
        # Polling is cheaper than callbacks: Dask starts a coroutine and wakes a thread for each callback.
        while (
            not (ended := self._ended_futures(_MAX_LARGE_ANSWERS if large else _BATCH_SIZE))
            and time.monotonic() < deadline
        ):
            time.sleep(min(_POLL_INTERVAL, seconds))
        if self._client.status not in ("running", "connecting"):
            raise LostConnectionError("the connection to the scheduler is lost")
        if any(future.status == _FORGOTTEN for future in ended):
            raise LostConnectionError("the scheduler has forgotten this driver")
        finished = [future for future in ended if future.status == "finished"]
        answers = self._fetch(finished) if finished else []
        answers += [(future.key, self._error(future)) for future in ended if future.status == "error"]
        self.cancel(key for key, answer in answers if isinstance(answer, TimeoutError))
        for key, _ in answers:
            if key in self._tasks:
                self._tasks.pop(key).release()
        return answers

    def _ended_futures(self, limit: int) -> list[Any]:
        """Futures of tasks that are no longer under way, at most `limit`."""
        return list(islice((future for future in self._tasks.values() if future.status not in _UNDER_WAY), limit))

    def _fetch(self, futures: list[Any]) -> list[tuple[str, RunAnswer | BaseException]]:
        """The answers of finished tasks; a `TimeoutError` for each if they do not come in time.

        Empty if one answer was lost with its worker meanwhile. Dask makes that one again on any enrolled worker, and
        might wait for ever; the others are fetched the next time.
        """
        keys = [future.key for future in futures]

        def fetched() -> list[tuple[str, RunAnswer | BaseException]]:
            gathering = asyncio.run_coroutine_threadsafe(self._client._gather(futures), self._client.loop.asyncio_loop)
            deadline = time.monotonic() + FETCH_TIMEOUT
            while not wait([gathering], _CHECK_INTERVAL).done:
                if lost := {future.key for future in futures if future.status in _UNDER_WAY}:
                    self._lost_answers |= lost
                    gathering.cancel()
                    return []
                if time.monotonic() > deadline:
                    gathering.cancel()
                    return [(key, TimeoutError()) for key in keys]
            return list(zip(keys, gathering.result(), strict=True))

        answers: list[tuple[str, RunAnswer | BaseException]] = self._call(fetched)
        return answers

    @staticmethod
    def _error(future: Any) -> BaseException:
        exception = future.exception()
        return exception if isinstance(exception, BaseException) else RuntimeError(str(exception))

    def _call(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (OSError, TimeoutError) as error:
            raise LostConnectionError(f"the connection to the scheduler is lost: {error}") from error
        except Exception as error:
            # (`distributed` raises different types in different places.)
            if self._client.status != "running" or type(error).__name__ in _LOST_ERRORS:
                raise LostConnectionError(f"the connection to the scheduler is lost: {error}") from error
            raise

    # --- missing images

    def _handle_request(self, event: Any) -> None:
        """Handle a worker's request for files. Called in a thread of the client, which must not block."""
        message = event[1] if isinstance(event, tuple | list) else event
        if not self._closed:
            self._senders.submit(self._send, message["worker"], message["what"], message["digest"])

    def _send(self, address: str, stream_id: str, digest: str) -> None:
        def put(piece: bytes | None, why: str = "") -> bool:
            replies = self._client.run(deliver, stream_id, piece, why, workers=[address], on_error="ignore")
            return bool(replies.get(address)) and not self._closed

        with suppress(Exception):  # the worker notices that nothing comes, and reports it
            try:
                if all(put(piece) for piece in self._image_source.pieces(digest)):
                    put(None)
            except EngineError as error:
                put(None, error.message)

    def close(self) -> None:
        """Close the connection; tasks under way are cancelled, since nobody needs them."""
        self._closed = True
        self._senders.shutdown(wait=False, cancel_futures=True)
        with suppress(Exception):
            self.cancel(list(self._tasks))
        closing = threading.Thread(target=self._close, daemon=True)
        closing.start()
        closing.join(ANSWER_TIMEOUT)

    def _close(self) -> None:
        with suppress(Exception):
            self._client.close(timeout=5)
