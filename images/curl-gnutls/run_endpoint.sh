#!/bin/bash
# The endpoint contract of the QUIC interop runner on top of libcurl, a client that speaks HTTP/3 only.
set -u

if [ "${TESTCASE:-}" != http3 ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi
if [ "${ROLE:-}" != client ]; then
  echo "libcurl is a client only, not \"${ROLE:-}\"" >&2
  exit 127
fi
if [ -n "${MOVES:-}" ]; then
  echo "libcurl keeps its address: MOVES=$MOVES" >&2
  exit 1
fi
if [ -z "${REQUESTS:-}" ]; then
  echo 'REQUESTS names no file to fetch' >&2
  exit 1
fi
/setup.sh || exit 1
/wait-for-sim || exit 1
[ -z "${QLOGDIR:-}" ] || mkdir -p "$QLOGDIR" || exit 1

# As the first process of a container, Python would not hear SIGTERM. REQUESTS is a list of words. GnuTLS writes
# SSLKEYLOGFILE, libcurl QLOGDIR. Hash seeds would be drawn at random.
PYTHONHASHSEED=0 python3 /usr/local/lib/curl-gnutls/fetch.py /downloads $REQUESTS &
child=$!
trap 'kill "$child" 2>/dev/null' TERM INT
wait "$child"
