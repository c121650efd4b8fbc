#!/bin/bash
# The endpoint contract of the QUIC interop runner on top of a browser, a client that speaks HTTP/3 only.
set -u

if [ "${TESTCASE:-}" != http3 ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi
if [ "${ROLE:-}" != client ]; then
  echo "Firefox is a client only, not \"${ROLE:-}\"" >&2
  exit 127
fi
if [ -n "${MOVES:-}" ]; then
  echo "Firefox keeps its address: MOVES=$MOVES" >&2
  exit 1
fi
if [ -z "${REQUESTS:-}" ]; then
  echo 'REQUESTS names no file to fetch' >&2
  exit 1
fi
/setup.sh || exit 1
/wait-for-sim || exit 1

# CLIENT_PARAMS and REQUESTS are lists of words.
exec firefox-fetch ${CLIENT_PARAMS:-} $REQUESTS
