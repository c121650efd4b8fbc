#!/bin/bash
# A generator of background traffic, not an endpoint of QUIC: it plays one end of the flow that TRAFFIC describes.
set -u

if [ "${TESTCASE:-}" != traffic ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi

/setup.sh || exit 1
case ${ROLE:-} in
  client) /wait-for-sim || exit 1 ;;
  server) ;;
  *)
    echo "ROLE must be client or server, not \"${ROLE:-}\"" >&2
    exit 1
    ;;
esac
exec python3 -m traffic "$ROLE"
