#!/usr/bin/env python3
"""Has a page in a headless Chromium speak WebTransport, as the interop runner's TESTCASE tells a client to.

chromium-webtransport [SWITCH...] URL...: switches of Chromium, and URLs of sessions, or of files to be asked for on
them, https://HOST:PORT/SESSION/FILE. Files that come go below DOWNLOAD_DIR; those that the server asks for are in /www.

The browser is driven over its debugging pipe (Chrome DevTools Protocol). WebTransport is for pages of trustworthy
origins, such as one of 127.0.0.1. Nothing listens there: this program answers what the page asks for, in place of a
server. The exit code is 0 where the test case succeeds.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

BROWSER = "/usr/bin/chromium-headless-shell"
CERTIFICATE = Path("/certs/cert.pem")
#: Files that the server may ask for.
SERVED = Path("/www")
SCRIPT = Path("/usr/local/share/chromium-webtransport/session.js")
#: What the page says it is. A browser takes this origin for trustworthy, though it has no certificate.
ORIGIN = "http://127.0.0.1"
DOCUMENT = b'<!doctype html><title>WebTransport</title><script type="module" src="/session.js"></script>'
PROTOCOL_FILE = "negotiated_protocol.txt"
#: Descriptors from which Chromium reads commands, and to which it writes events (--remote-debugging-pipe).
COMMANDS_FD, EVENTS_FD = 3, 4
#: Seconds that the browser has to close its connections before it is killed.
CLOSE_SECONDS = 5


class SessionError(Exception):
    """The test case fails, and why."""


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
        # Nothing but the sessions is asked of anybody.
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--enable-quic",
        # WebTransport has no other transport; but only these servers may have a certificate of an unknown authority.
        f"--origin-to-force-quic-on={','.join(servers)}",
        # A lab's servers have private addresses, for which a person would be asked.
        "--disable-features=LocalNetworkAccessChecksWebTransport",
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
        """Events, and results of what was sent. SessionError where the browser ends."""
        self._calls = 0

    @staticmethod
    def _read_messages(events: int) -> Iterator[dict[str, Any]]:
        """Messages of the browser: JSON texts with zeros between them."""
        rest = b""
        while piece := os.read(events, 1 << 20):
            *texts, rest = (rest + piece).split(b"\0")
            yield from map(json.loads, texts)
        raise SessionError("the browser ended")

    def send(self, method: str, session: str | None = None, **parameters: object) -> int:
        """Call a method of the protocol without waiting. Returns the number of the call."""
        self._calls += 1
        message: dict[str, object] = {"id": self._calls, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._commands.write(json.dumps(message).encode() + b"\0")
        return self._calls

    def call(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol, and return its result. SessionError where it fails."""
        number = self.send(method, session, **parameters)
        message = next(message for message in self.messages if message.get("id") == number)
        if "error" in message:
            raise SessionError(f"{method}: {message['error'].get('message')}")
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


def plan_of(urls: list[str], testcase: str, protocols: list[str]) -> dict[str, object]:
    """What the page is to do: the test case, and each session with the files to be asked for on it."""
    sessions: dict[str, dict[str, Any]] = {}
    for url in urls:
        parts = urlsplit(url)
        name, _, file = unquote(parts.path).strip("/").partition("/")
        if parts.scheme != "https" or not name:
            raise SessionError(f"not a usable URL: {url}")
        new = {"url": f"https://{parts.netloc}/{name}", "name": name, "files": []}
        files = sessions.setdefault(name, new)["files"]
        if file and file not in files:
            files.append(file)
    return {"testcase": testcase, "protocols": protocols, "sessions": list(sessions.values())}


def below(root: Path, path: str) -> Path:
    """A file below a root. SessionError where the path leads elsewhere."""
    file = (root / path).resolve()
    if not file.is_relative_to(root.resolve()):
        raise SessionError(f"not a file's name: {path}")
    return file


class Page:
    """The page that speaks WebTransport, seen from outside: it asks for files, and tells what it receives."""

    def __init__(self, browser: Browser, plan: dict[str, object], downloads: Path) -> None:
        self._browser = browser
        self._downloads = downloads
        self._own = {
            "/": ("text/html; charset=utf-8", DOCUMENT),
            "/session.js": ("text/javascript", SCRIPT.read_bytes()),
            "/plan.json": ("application/json", json.dumps(plan).encode()),
        }
        tab = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session: str = browser.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]

    def run(self) -> None:
        """Load the page, and serve it until it says that all is over. SessionError where the test case fails."""
        self._browser.call("Runtime.enable", self._session)
        self._browser.call("Runtime.addBinding", self._session, name="tell")
        self._browser.call("Fetch.enable", self._session, patterns=[{"urlPattern": f"{ORIGIN}/*"}])
        # No call waits from here on, since that would pass over events.
        self._browser.send("Page.navigate", self._session, url=f"{ORIGIN}/")
        for message in self._browser.messages:
            parameters = message.get("params", {})
            match message.get("method"):
                case "Fetch.requestPaused":
                    self._answer(parameters)
                case "Runtime.exceptionThrown":
                    details = parameters["exceptionDetails"]
                    raise SessionError(details.get("exception", {}).get("description") or details["text"])
                case "Runtime.bindingCalled":
                    told = json.loads(parameters["payload"])
                    if told["kind"] != "over":
                        self._hear(told)
                    elif told["failure"]:
                        raise SessionError(told["failure"])
                    else:
                        return
                case _:
                    pass

    def _answer(self, request: dict[str, Any]) -> None:
        """Answer a request of the page as a server would."""
        status, media_type, content = self._response(unquote(urlsplit(request["request"]["url"]).path))
        self._browser.send(
            "Fetch.fulfillRequest",
            self._session,
            requestId=request["requestId"],
            responseCode=status,
            responseHeaders=[{"name": "content-type", "value": media_type}],
            body=base64.b64encode(content).decode(),
        )

    def _response(self, path: str) -> tuple[int, str, bytes]:
        """Status, media type and content."""
        if path in self._own:
            return 200, *self._own[path]
        folder, _, name = path.lstrip("/").partition("/")
        with contextlib.suppress(OSError, SessionError):
            if folder == SERVED.name:
                return 200, "application/octet-stream", below(SERVED, name).read_bytes()
        return 404, "text/plain", b""

    def _hear(self, told: dict[str, Any]) -> None:
        """Do what the page asks for. A file grows as its pieces come."""
        match told["kind"]:
            case "begin":
                file = below(self._downloads, told["path"])
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b"")
            case "piece":
                with below(self._downloads, told["path"]).open("ab") as growing:
                    growing.write(base64.b64decode(told["content"]))
            case "discard":
                below(self._downloads, told["path"]).unlink(missing_ok=True)
            case "protocol":
                (self._downloads / PROTOCOL_FILE).write_text(told["name"])
            case _:
                print(f"chromium-webtransport: {told['text']}", file=sys.stderr)


def main(words: list[str]) -> int:
    """The exit code."""
    # The first process of a container hears only those signals that it has a handler for.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    urls = [word for word in words if not word.startswith("--")]
    environment = os.environ
    downloads = Path(environment.get("DOWNLOAD_DIR") or "/downloads")
    try:
        plan = plan_of(urls, environment["TESTCASE"], environment.get("PROTOCOLS", "").split())
        with contextlib.closing(Browser(switches(urls, [word for word in words if word.startswith("--")]))) as browser:
            Page(browser, plan, downloads).run()
    except SessionError as error:
        print(f"chromium-webtransport: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
