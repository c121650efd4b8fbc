#!/usr/bin/env python3
"""Has a headless Firefox fetch files over HTTP/3 into /downloads, which grow there as they arrive.

firefox-fetch [--PREFERENCE=VALUE...] URL...: preferences of Firefox, and URLs whose files it fetches at once, over one
connection.

The browser is driven over Marionette, its own protocol for tests: a script in its window fetches the URLs. The exit
code is 0 where all files are whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BROWSER = "/usr/bin/firefox-esr"
AUTHORITY = Path("/certs/ca.pem")
DOWNLOADS = Path("/downloads")
PROFILE = Path("/tmp/profile")
#: Port at which Marionette listens.
PORT = 2828
#: Seconds that the browser has to end before it is killed.
CLOSE_SECONDS = 5
#: Longer than any transfer of a lab, in milliseconds.
FOR_EVER = 10**9
#: Preferences by which the lab's server is spoken to over QUIC, and nobody else is asked for anything.
PREFERENCES: dict[str, object] = {
    "network.http.http3.enable": True,
    "network.http.http3.force-use-alt-svc-mapping-for-testing": True,
    # By default the lab's authority, which no browser has, would turn HTTP/3 off.
    "network.http.http3.disable_when_third_party_roots_found": False,
    "network.http.http3.enable_qlog": True,
    # No connection over TCP beside that over QUIC.
    "network.http.http3.parallel_fallback_conn_limit": 0,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.trr.mode": 5,
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.safebrowsing.update.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.getAddons.cache.enabled": False,
    "services.settings.server": "data:,",
    "toolkit.telemetry.enabled": False,
}
#: Takes URLs with the paths of their files, and calls back with nothing or the reason of a failure.
SCRIPT = """
const [files, authority, callBack] = arguments;
const fetchFile = async ([url, path]) => {
  const response = await fetch(url, {cache: "no-store"});
  if (!response.ok) throw new Error(`${url}: status ${response.status}`);
  const reader = response.body.getReader();
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    await IOUtils.write(path, value, {mode: "appendOrCreate"});
  }
};
if (authority) {
  const certificates = Cc["@mozilla.org/security/x509certdb;1"].getService(Ci.nsIX509CertDB);
  certificates.addCertFromBase64(authority, "C,,");
}
Promise.all(files.map(fetchFile)).then(() => callBack(null), (error) => callBack(String(error)));
"""


class FetchError(Exception):
    """The files cannot be fetched, and why."""


def preferences(urls: list[str], given: list[str]) -> dict[str, object]:
    """The browser's preferences: QUIC for the URLs' servers, and those of the command line, as JSON values."""
    servers = sorted({(parts.hostname, parts.port or 443) for parts in map(urlsplit, urls)})
    mapping = ",".join(f"{host};h3=:{port}" for host, port in servers)
    asked = dict(word.removeprefix("--").split("=", 1) for word in given)
    return {
        **PREFERENCES,
        "network.http.http3.alt-svc-mapping-for-testing": mapping,
        **{name: json.loads(value) for name, value in asked.items()},
    }


class Marionette:
    """The connection to a Firefox that runs."""

    def __init__(self) -> None:
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                self._stream = socket.create_connection(("127.0.0.1", PORT)).makefile("rwb", buffering=0)
                break
            time.sleep(0.01)
        self._calls = 0
        self._read()

    def _read(self) -> Any:
        """A message: its length in decimal digits, a colon, and a JSON text."""
        digits = b""
        while (digit := self._stream.read(1)) not in (b":", b"", None):
            digits += digit or b""
        text, length = b"", int(digits or b"0")
        while len(text) < length and (piece := self._stream.read(length - len(text))):
            text += piece
        if not text:
            raise FetchError("the browser ended")
        return json.loads(text)

    def call(self, command: str, **parameters: object) -> Any:
        """Have a command executed. FetchError where it fails."""
        self._calls += 1
        text = json.dumps([0, self._calls, command, parameters]).encode()
        self._stream.write(f"{len(text)}:".encode() + text)
        _, _, error, result = self._read()
        if error is not None:
            raise FetchError(f"{command}: {error['message']}")
        return result


def fetch(urls: list[str]) -> None:
    """Have the browser that listens fetch the URLs into /downloads. FetchError where one of them fails."""
    marionette = Marionette()
    marionette.call("WebDriver:NewSession", timeouts={"script": FOR_EVER})
    marionette.call("Marionette:SetContext", value="chrome")
    authority = ""
    if AUTHORITY.exists():
        lines = AUTHORITY.read_text().splitlines()
        authority = "".join(line for line in lines if line and not line.startswith("-----"))
    files = [(url, str(DOWNLOADS / Path(urlsplit(url).path).name)) for url in urls]
    failure = marionette.call("WebDriver:ExecuteAsyncScript", script=SCRIPT, args=[files, authority])["value"]
    if failure is not None:
        raise FetchError(failure)
    marionette.call("Marionette:Quit", flags=["eForceQuit"])


def keep_qlog(folder: str) -> None:
    """Move the traces of this process's connections, which the browser has in folders of its own below /tmp."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for trace in Path("/tmp").glob("qlog_*/*"):
        shutil.move(trace, folder)


def main(words: list[str]) -> int:
    """The exit code."""
    # The first process of a container hears only those signals that it has a handler for.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    urls = [word for word in words if not word.startswith("--")]
    chosen = preferences(urls, [word for word in words if word.startswith("--")])
    for name, value in chosen.items():
        if isinstance(value, float):
            print(f"firefox-fetch: {name}={value}: a preference has whole numbers alone", file=sys.stderr)
            return 1
    PROFILE.mkdir()
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in chosen.items()]
    (PROFILE / "user.js").write_text("".join(lines))
    browser = subprocess.Popen(
        [
            BROWSER,
            "--headless",
            "--no-remote",
            "--marionette",
            "--remote-allow-system-access",
            "--profile",
            str(PROFILE),
        ],
        # The container is the sandbox, and its root may not make another.
        env={
            **os.environ,
            "HOME": "/tmp",
            "MOZ_DISABLE_CONTENT_SANDBOX": "1",
            "MOZ_DISABLE_SOCKET_PROCESS_SANDBOX": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
    )
    try:
        fetch(urls)
        browser.wait(CLOSE_SECONDS)
    except FetchError as error:
        print(f"firefox-fetch: {error}", file=sys.stderr)
        return 1
    except subprocess.TimeoutExpired:
        pass
    finally:
        browser.kill()
        browser.wait()
        if folder := os.environ.get("QLOGDIR"):
            keep_qlog(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
