"""Fetch URLs over HTTP/3 with libcurl, all over one connection: fetch.py DIRECTORY URL..."""

import sys
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pycurl

#: CURL_HTTP_VERSION_3ONLY (curl/curl.h): no other version is tried.
_HTTP_3_ONLY = 31
#: Seconds that a wait for the sockets lasts at most.
_WAIT = 1.0


def _request(url: str, directory: Path) -> pycurl.Curl:
    # Unbuffered, so that the file grows with every packet.
    file = (directory / PurePosixPath(urlsplit(url).path).name).open("wb", buffering=0)
    request = pycurl.Curl()
    request.setopt(pycurl.URL, url)
    request.setopt(pycurl.HTTP_VERSION, _HTTP_3_ONLY)
    request.setopt(pycurl.SSL_VERIFYPEER, 0)
    request.setopt(pycurl.SSL_VERIFYHOST, 0)
    request.setopt(pycurl.FAILONERROR, 1)
    # Several requests wait for the first connection instead of opening their own.
    request.setopt(pycurl.PIPEWAIT, 1)
    request.setopt(pycurl.WRITEFUNCTION, file.write)
    return request


def main(directory: str, *urls: str) -> int:
    """Fetch all URLs; 0 where every file is whole, else 1 with the reasons on stderr."""
    transfers = pycurl.CurlMulti()
    transfers.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
    requests = {_request(url, Path(directory)): url for url in urls}
    for request in requests:
        transfers.add_handle(request)
    running, queued, failures = len(requests), 0, []
    while running or queued:
        _, running = transfers.perform()
        queued, _, failed = transfers.info_read()
        failures += [f"{requests[request]}: ({code}) {text}" for request, code, text in failed]
        if running:
            transfers.select(_WAIT)
    for failure in failures:
        print(f"curl-gnutls: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
