#!/usr/bin/env python3
"""Has a headless Firefox fetch files over HTTP/3 into /downloads, which grow there as they arrive.

firefox-fetch [--PREFERENCE=VALUE...] URL...: preferences of Firefox, and URLs whose files it fetches at once, over one
connection.

The browser is driven over Marionette, its own protocol for tests: a script in its window fetches the URLs. With
SCHEDULE in the environment the first URL is a document that names the others: the browser loads that as a page, and its
files are saved once all are there. The exit code is 0 where all files are whole.
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
#: Where the times of a page's requests go.
REQUESTS = Path("/logs/requests.csv")
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
#: Has the browser trust the lab's authority.
TRUST = """
const certificates = Cc["@mozilla.org/security/x509certdb;1"].getService(Ci.nsIX509CertDB);
certificates.addCertFromBase64(arguments[0], "C,,");
"""
#: Has the browser note, from now on, what it asks for and what comes, and give files the media types of their names.
WATCH = """
const types = {html: "text/html", css: "text/css", js: "text/javascript"};
const requests = Services.labRequests = new Map();
class Listener {
  QueryInterface = ChromeUtils.generateQI(["nsIStreamListener"]);
  constructor(request) { this.request = request; }
  onStartRequest(channel) { this.next.onStartRequest(channel); }
  onDataAvailable(channel, stream, offset, count) {
    const input = Cc["@mozilla.org/binaryinputstream;1"].createInstance(Ci.nsIBinaryInputStream);
    input.setInputStream(stream);
    const data = new ArrayBuffer(count);
    input.readArrayBuffer(count, data);
    this.request.parts.push(new Uint8Array(data));
    const copy = Cc["@mozilla.org/io/arraybuffer-input-stream;1"].createInstance(Ci.nsIArrayBufferInputStream);
    copy.setData(data, 0, count);
    this.next.onDataAvailable(channel, copy, offset, count);
  }
  onStopRequest(channel, status) {
    const timed = channel.QueryInterface(Ci.nsITimedChannel);
    this.request.times = [timed.asyncOpenTime, timed.responseStartTime, timed.responseEndTime];
    if (!Components.isSuccessCode(status)) this.request.failure = `failed: ${status.toString(16)}`;
    this.next.onStopRequest(channel, status);
  }
}
Services.obs.addObserver((channel, topic) => {
  channel.QueryInterface(Ci.nsIHttpChannel);
  const name = channel.URI.QueryInterface(Ci.nsIURL).fileName;
  if (topic === "http-on-modify-request") {
    channel.QueryInterface(Ci.nsITimedChannel).timingEnabled = true;
    return;
  }
  const request = {parts: [], failure: null, times: null};
  const version = channel.QueryInterface(Ci.nsIHttpChannelInternal).protocolVersion;
  if (channel.responseStatus !== 200 || version !== "h3") {
    request.failure = `status ${channel.responseStatus} over ${version}`;
  }
  requests.set(name, request);
  const type = types[channel.URI.fileExtension];
  if (type) channel.contentType = type;
  const listener = new Listener(request);
  listener.next = channel.QueryInterface(Ci.nsITraceableChannel).setNewListener(listener);
}, "http-on-examine-response");
"""
#: Takes the paths of the files by their names, and calls back with the failure of one, or the times of all, µs.
SAVE = """
const [files, callBack] = arguments;
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
(async () => {
  const times = {};
  for (const [name, path] of Object.entries(files)) {
    const request = Services.labRequests.get(name);
    if (!request) return `${name} was not asked for`;
    while (!request.times) await wait(1);
    if (request.failure) return `${name}: ${request.failure}`;
    times[name] = request.times;
    for (const part of request.parts) await IOUtils.write(path, part, {mode: "appendOrCreate"});
  }
  return times;
})().then(callBack, (error) => callBack(String(error)));
"""
#: Takes URLs with the paths of their files, and calls back with nothing or the reason of a failure.
SCRIPT = """
const [files, callBack] = arguments;
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


def start() -> Marionette:
    """The browser that listens, which trusts the lab's authority where there is one."""
    marionette = Marionette()
    marionette.call("WebDriver:NewSession", timeouts={"script": FOR_EVER, "pageLoad": FOR_EVER})
    marionette.call("Marionette:SetContext", value="chrome")
    if AUTHORITY.exists():
        lines = AUTHORITY.read_text().splitlines()
        authority = "".join(line for line in lines if line and not line.startswith("-----"))
        marionette.call("WebDriver:ExecuteScript", script=TRUST, args=[authority])
    return marionette


def fetch(marionette: Marionette, urls: list[str]) -> None:
    """Have the browser fetch the URLs into /downloads. FetchError where one of them fails."""
    files = [(url, str(_file_of(url))) for url in urls]
    failure = marionette.call("WebDriver:ExecuteAsyncScript", script=SCRIPT, args=[files])["value"]
    if failure is not None:
        raise FetchError(failure)


def load_page(marionette: Marionette, urls: list[str]) -> None:
    """Have the browser load the first URL as a document, which names the others. FetchError where a file fails."""
    marionette.call("WebDriver:ExecuteScript", script=WATCH, args=[])
    marionette.call("Marionette:SetContext", value="content")
    marionette.call("WebDriver:Navigate", url=urls[0])
    marionette.call("Marionette:SetContext", value="chrome")
    files = {_file_of(url).name: str(_file_of(url)) for url in urls}
    times = marionette.call("WebDriver:ExecuteAsyncScript", script=SAVE, args=[files])["value"]
    if isinstance(times, str):
        raise FetchError(times)
    rows = (",".join(str(at * 1000) for at in times[_file_of(url).name]) for url in urls)
    lines = [f"{number},{row}\n" for number, row in enumerate(rows)]
    REQUESTS.write_text("request,asked_ns,first_byte_ns,complete_ns\n" + "".join(lines))


def _file_of(url: str) -> Path:
    """Where the contract has the file of a URL."""
    return DOWNLOADS / Path(urlsplit(url).path).name


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
        marionette = start()
        (load_page if os.environ.get("SCHEDULE") else fetch)(marionette, urls)
        marionette.call("Marionette:Quit", flags=["eForceQuit"])
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
