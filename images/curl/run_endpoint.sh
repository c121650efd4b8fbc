#!/bin/bash
# The endpoint contract of the QUIC interop runner on top of curl, a client that speaks HTTP/3 only.
set -u

if [ "${TESTCASE:-}" != http3 ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi
if [ "${ROLE:-}" != client ]; then
  echo "curl is a client only, not \"${ROLE:-}\"" >&2
  exit 127
fi
if [ -n "${MOVES:-}" ]; then
  echo "curl keeps its address: MOVES=$MOVES" >&2
  exit 1
fi
if [ -z "${REQUESTS:-}" ]; then
  echo 'REQUESTS names no file to fetch' >&2
  exit 1
fi
/setup.sh || exit 1
/wait-for-sim || exit 1

if [ -n "${QLOGDIR:-}" ]; then
  mkdir -p "$QLOGDIR" || exit 1
  # OpenSSL writes no event that this filter does not name.
  export OSSL_QFILTER='*'
fi

# As the first process of a container, curl would not hear SIGTERM. CLIENT_PARAMS and REQUESTS are lists of words.
curl --http3-only --silent --show-error --fail --fail-early --insecure --no-buffer \
  --output-dir /downloads --remote-name-all ${CLIENT_PARAMS:-} $REQUESTS &
child=$!
trap 'kill "$child" 2>/dev/null' TERM INT
wait "$child"
