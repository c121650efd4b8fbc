#!/bin/bash
# The endpoint contract of the QUIC interop runner on top of Bun: a server for HTTP/3.
set -u

if [ "${ROLE:-}" != server ]; then
  echo "Bun is a server here, not \"${ROLE:-}\"" >&2
  exit 127
fi
if [ "${TESTCASE:-}" != http3 ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi

/setup.sh || exit 1
# Nothing but the program is looked for: no package, no file of settings, no cache.
export BUN_RUNTIME_TRANSPILER_CACHE_PATH=0 DO_NOT_TRACK=1
# shellcheck disable=SC2086  # SERVER_PARAMS is a list of words.
exec bun --no-install --no-env-file /usr/local/lib/bun-endpoint/server.js ${SERVER_PARAMS:-}
