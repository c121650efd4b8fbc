#!/bin/bash
# The WebTransport contract of the QUIC interop runner on top of a browser, which is a client only.
set -fu

if [ "${ROLE:-}" != client ]; then
  echo "Chromium is a client only, not \"${ROLE:-}\"" >&2
  exit 127
fi
case ${TESTCASE:-} in
  handshake | transfer) ;;
  transfer-unidirectional-receive | transfer-bidirectional-receive | transfer-datagram-receive) ;;
  *)
    echo "unsupported test case: ${TESTCASE:-none}" >&2
    exit 127
    ;;
esac
if [ -z "${REQUESTS:-}" ]; then
  echo 'REQUESTS names no session to open' >&2
  exit 1
fi
/setup.sh || exit 1
/wait-for-sim || exit 1

# CLIENT_PARAMS and REQUESTS are lists of words.
exec chromium-webtransport ${CLIENT_PARAMS:-} $REQUESTS
