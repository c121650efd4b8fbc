#!/bin/bash
# The endpoint contract of the QUIC interop runner on top of Caddy: a server for HTTP/3.
set -u

if [ "${ROLE:-}" != server ]; then
  echo "Caddy is a server, not \"${ROLE:-}\"" >&2
  exit 127
fi
if [ "${TESTCASE:-}" != http3 ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi
if [ -n "${SERVER_PARAMS:-}" ]; then
  echo "this server has no options: $SERVER_PARAMS" >&2
  exit 1
fi

/setup.sh || exit 1
exec caddy run --config /etc/caddy/Caddyfile
