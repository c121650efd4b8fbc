#!/usr/bin/env python3
"""Has a headless Chromium download files over HTTP/3 into /downloads, which grow there as they arrive.

chromium-fetch [SWITCH...] URL...: switches of Chromium, and URLs whose files it downloads at once, over one connection.

The browser is driven over its debugging pipe (Chrome DevTools Protocol), as if somebody opened each URL in a tab of its
own and had it saved. With SCHEDULE in the environment the first URL is a document that names the others: the browser
loads that as a page, and its files are saved once all are there. The exit code is 0 where all files are whole.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BROWSER = "/usr/bin/chromium-headless-shell"
CERTIFICATE = Path("/certs/cert.pem")
DOWNLOADS = Path("/downloads")
#: Where the times of a page's requests go.
REQUESTS = Path("/logs/requests.csv")
#: Descriptors from which Chromium reads commands, and to which it writes events (--remote-debugging-pipe).
COMMANDS_FD, EVENTS_FD = 3, 4
#: Seconds that the browser has to close its connections before it is killed.
CLOSE_SECONDS = 5
#: Where Chromium saves a file while it comes, by an identifier of its own; on the same file system as the file.
SAVED = DOWNLOADS / ".chromium"
#: What Chromium calls a navigation that became a download.
ABORTED = "net::ERR_ABORTED"


class FetchError(Exception):
    """The files cannot be fetched, and why."""


def switches(urls: list[str], given: list[str]) -> list[str]:
    """The command line of the browser: QUIC for the URLs' servers, and the lab's certificate by its public key."""
    servers = sorted({f"{parts.hostname}:{parts.port or 443}" for parts in map(urlsplit, urls)})
    words = [
        "--remote-debugging-pipe",
        # The container is the sandbox, and its root may not make another.
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--user-data-dir=/tmp/profile",
        # Nothing but the files is asked of anybody.
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--enable-quic",
        f"--origin-to-force-quic-on={','.join(servers)}",
        *given,
    ]
    if CERTIFICATE.exists():
        words.append(f"--ignore-certificate-errors-spki-list={public_key_digest()}")
    if key_log := os.environ.get("SSLKEYLOGFILE"):
        words.append(f"--ssl-key-log-file={key_log}")
    return [*words, "about:blank"]


def public_key_digest() -> str:
    """SHA-256 of the certificate's public key (SubjectPublicKeyInfo, RFC 5280 §4.1), in Base64."""
    command = ["openssl", "x509", "-in", str(CERTIFICATE), "-pubkey", "-noout"]
    lines = subprocess.run(command, capture_output=True, check=True).stdout.splitlines()
    der = base64.b64decode(b"".join(line for line in lines if not line.startswith(b"-----")))
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def _moved_up(descriptor: int) -> int:
    """A descriptor in place of another, beyond those that a browser has its own use for."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Browser:
    """A Chromium that runs, and the pipe to it."""

    def __init__(self, command: list[str]) -> None:
        browser_reads, commands = os.pipe()
        events, browser_writes = os.pipe()
        browser_reads, browser_writes = _moved_up(browser_reads), _moved_up(browser_writes)
        nothing = os.open(os.devnull, os.O_RDONLY)
        places = {0: nothing, 1: sys.stderr.fileno(), COMMANDS_FD: browser_reads, EVENTS_FD: browser_writes}
        self._process = os.posix_spawn(
            BROWSER,
            [BROWSER, *command],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, end, place) for place, end in places.items()],
        )
        for end in (browser_reads, browser_writes, nothing):
            os.close(end)
        self._commands = os.fdopen(commands, "wb", buffering=0)
        self.messages = self._read_messages(events)
        """Events, and results of what was sent. FetchError where the browser ends."""
        self._calls = 0

    @staticmethod
    def _read_messages(events: int) -> Iterator[dict[str, Any]]:
        """Messages of the browser: JSON texts with zeros between them."""
        rest = b""
        while piece := os.read(events, 1 << 20):
            *texts, rest = (rest + piece).split(b"\0")
            yield from map(json.loads, texts)
        raise FetchError("the browser ended")

    def send(self, method: str, session: str | None = None, **parameters: object) -> int:
        """Call a method of the protocol without waiting. Returns the number of the call."""
        self._calls += 1
        message: dict[str, object] = {"id": self._calls, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._commands.write(json.dumps(message).encode() + b"\0")
        return self._calls

    def call(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol, and return its result. FetchError where it fails."""
        number = self.send(method, session, **parameters)
        message = next(message for message in self.messages if message.get("id") == number)
        if "error" in message:
            raise FetchError(f"{method}: {message['error'].get('message')}")
        result: dict[str, Any] = message["result"]
        return result

    def close(self) -> None:
        """Have it end, in good order if it can."""
        previous = signal.signal(signal.SIGALRM, lambda number, frame: os.kill(self._process, signal.SIGKILL))
        signal.alarm(CLOSE_SECONDS)
        with contextlib.suppress(BrokenPipeError):
            self.send("Browser.close")
        os.waitpid(self._process, 0)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def fetch(browser: Browser, urls: list[str]) -> None:
    """Download the URLs' files. FetchError where one of them fails."""
    SAVED.mkdir()
    browser.call("Browser.setDownloadBehavior", behavior="allowAndName", downloadPath=str(SAVED), eventsEnabled=True)
    sessions = [_open_tab(browser) for _ in urls]
    # No call waits from here on, since that would pass over events.
    navigations = {
        browser.send("Page.navigate", session, url=url): url for session, url in zip(sessions, urls, strict=True)
    }
    names: dict[str, Path] = {}
    missing = {_name_of(url) for url in urls}
    for message in browser.messages:
        parameters = message.get("params", {})
        match message.get("method"):
            case None if message["id"] in navigations:
                reason = message.get("result", {}).get("errorText", "it was shown, and not downloaded")
                if reason != ABORTED:
                    raise FetchError(f"{navigations[message['id']]}: {reason}")
            case "Fetch.requestPaused":
                _have_saved(browser, message["sessionId"], parameters)
            case "Browser.downloadWillBegin":
                names[parameters["guid"]] = _name_of(parameters["url"])
                _give_name(SAVED / parameters["guid"], names[parameters["guid"]])
            case "Browser.downloadProgress" if parameters["state"] == "canceled":
                raise FetchError(f"{names[parameters['guid']].name}: the download broke off")
            case "Browser.downloadProgress" if parameters["state"] == "completed":
                missing.discard(names[parameters["guid"]])
                if not missing:
                    return
            case _:
                pass


#: Media types that make a document and its styles what they are, where their server does not say so.
MEDIA_TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}


@dataclass
class _Request:
    """One of a page's requests; times are the browser's monotonic ones, s."""

    file: Path
    asked: float
    first_byte: float | None = None
    complete: float | None = None


@dataclass
class _PageLoad:
    """What the browser tells of a page that it loads."""

    requests: dict[str, _Request] = field(default_factory=dict)
    """By the browser's own numbers."""
    epoch: float = 0.0
    """Wall clock of the browser's monotonic zero, s."""
    loaded: bool = False

    @property
    def is_over(self) -> bool:
        """Whether all that was asked for is there, and the document is loaded."""
        return self.loaded and all(request.complete is not None for request in self.requests.values())

    def hear(self, method: str | None, parameters: dict[str, Any]) -> None:
        """Take in an event. FetchError where a file fails."""
        request = self.requests.get(parameters.get("requestId", ""))
        if method == "Network.requestWillBeSent" and parameters["request"]["url"].startswith("https:"):
            file = _name_of(parameters["request"]["url"])
            self.requests[parameters["requestId"]] = _Request(file, parameters["timestamp"])
            self.epoch = parameters["wallTime"] - parameters["timestamp"]
        elif method == "Page.loadEventFired":
            self.loaded = True
        elif request is not None:
            self._hear_of(request, method, parameters)

    @staticmethod
    def _hear_of(request: _Request, method: str | None, parameters: dict[str, Any]) -> None:
        match method:
            case "Network.responseReceived":
                response = parameters["response"]
                if response["protocol"] != "h3" or response["status"] != 200:
                    raise FetchError(f"{request.file.name}: status {response['status']} over {response['protocol']}")
            case "Network.dataReceived":
                request.first_byte = request.first_byte or parameters["timestamp"]
            case "Network.loadingFinished":
                request.complete = parameters["timestamp"]
            case "Network.loadingFailed":
                raise FetchError(f"{request.file.name}: {parameters['errorText']}")
            case _:
                pass

    def write_times(self, files: list[Path]) -> None:
        """Write when each file was asked for and answered."""
        rows = {}
        for request in self.requests.values():
            times = (request.asked, request.first_byte or request.complete, request.complete)
            rows[request.file] = ",".join("" if at is None else str(round((self.epoch + at) * 1e9)) for at in times)
        lines = [f"{number},{rows[file]}\n" for number, file in enumerate(files)]
        REQUESTS.write_text("request,asked_ns,first_byte_ns,complete_ns\n" + "".join(lines))


def load_page(browser: Browser, urls: list[str]) -> None:
    """Load the first URL as a document and save all URLs' files, which it names. FetchError where one of them fails."""
    tab = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session: str = browser.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
    browser.call("Network.enable", session)
    browser.call("Page.enable", session)
    patterns = [{"urlPattern": f"*{suffix}", "requestStage": "Response"} for suffix in MEDIA_TYPES]
    browser.call("Fetch.enable", session, patterns=patterns)
    browser.send("Page.navigate", session, url=urls[0])
    page = _PageLoad()
    for message in browser.messages:
        parameters = message.get("params", {})
        if message.get("method") == "Fetch.requestPaused":
            _have_typed(browser, session, parameters)
        page.hear(message.get("method"), parameters)
        if page.is_over:
            break
    files = [_name_of(url) for url in urls]
    if missing := set(files).difference(request.file for request in page.requests.values()):
        # Such as of a server that says that its document is plain text.
        raise FetchError(f"the page is loaded, and {len(missing)} of its files were not asked for")
    page.write_times(files)
    for number, request in page.requests.items():
        request.file.write_bytes(_body(browser, session, number))


def _have_typed(browser: Browser, session: str, response: dict[str, Any]) -> None:
    """Let a response go on, with the media type that its file has."""
    media_type = MEDIA_TYPES[Path(urlsplit(response["request"]["url"]).path).suffix]
    headers = [item for item in response.get("responseHeaders", ()) if item["name"].lower() != "content-type"]
    browser.send(
        "Fetch.continueResponse",
        session,
        requestId=response["requestId"],
        responseCode=response.get("responseStatusCode", 200),
        responseHeaders=[*headers, {"name": "content-type", "value": media_type}],
    )


def _body(browser: Browser, session: str, number: str) -> bytes:
    body = browser.call("Network.getResponseBody", session, requestId=number)
    return base64.b64decode(body["body"]) if body["base64Encoded"] else body["body"].encode()


def _open_tab(browser: Browser) -> str:
    """The session of a tab whose responses wait to be looked at."""
    page = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session: str = browser.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
    browser.call("Fetch.enable", session, patterns=[{"requestStage": "Response"}])
    return session


def _name_of(url: str) -> Path:
    """Where the contract has the file of a URL."""
    return DOWNLOADS / Path(urlsplit(url).path).name


def _have_saved(browser: Browser, session: str, response: dict[str, Any]) -> None:
    """Let a response go on, as one whose content is to be saved whatever it is. FetchError for any but 200."""
    reason = response.get("responseErrorReason") or f"status {response.get('responseStatusCode')}"
    if reason != "status 200":
        raise FetchError(f"{response['request']['url']}: {reason}")
    headers = [*response["responseHeaders"], {"name": "content-disposition", "value": "attachment"}]
    browser.send(
        "Fetch.continueResponse", session, requestId=response["requestId"], responseCode=200, responseHeaders=headers
    )


def _give_name(saved: Path, name: Path) -> None:
    """Give a file that Chromium is saving the name that it has for the lab, as a second one."""
    while True:
        for place in (saved.with_name(f"{saved.name}.crdownload"), saved):
            with contextlib.suppress(FileNotFoundError):
                os.link(place, name)
                return
        time.sleep(0.001)


def main(words: list[str]) -> int:
    """The exit code."""
    # The first process of a container hears only those signals that it has a handler for.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    urls = [word for word in words if not word.startswith("--")]
    browser = Browser(switches(urls, [word for word in words if word.startswith("--")]))
    try:
        (load_page if os.environ.get("SCHEDULE") else fetch)(browser, urls)
    except FetchError as error:
        print(f"chromium-fetch: {error}", file=sys.stderr)
        return 1
    finally:
        browser.close()
        shutil.rmtree(SAVED, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
