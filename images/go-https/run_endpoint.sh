#!/bin/bash
# The endpoint contract with HTTP/2 over TLS 1.3 and TCP instead of QUIC, for a client alone.
set -u

if [ "${TESTCASE:-}" != http2 ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi
if [ "${ROLE:-}" != client ]; then
  echo "go-https is a client only, not \"${ROLE:-}\"" >&2
  exit 127
fi
if [ -n "${MOVES:-}" ]; then
  echo "a TCP connection keeps its address: MOVES=$MOVES" >&2
  exit 1
fi
if [ -z "${REQUESTS:-}" ]; then
  echo 'REQUESTS names no file to fetch' >&2
  exit 1
fi
/setup.sh || exit 1
/wait-for-sim || exit 1

# CLIENT_PARAMS and REQUESTS are lists of words.
exec go-https-endpoint client --downloads=/downloads ${CLIENT_PARAMS:-} $REQUESTS
