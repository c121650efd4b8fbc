#!/bin/sh
# The WebTransport contract of the QUIC interop runner: CLIENT_PARAMS, SERVER_PARAMS and REQUESTS are lists of words.
set -fu

case ${ROLE:-}:${TESTCASE:-} in
  client:handshake | client:transfer | server:handshake | server:transfer) ;;
  client:transfer-unidirectional-receive | client:transfer-bidirectional-receive | client:transfer-datagram-receive) ;;
  server:transfer-unidirectional-send | server:transfer-bidirectional-send | server:transfer-datagram-send) ;;
  client:* | server:*)
    echo "unsupported test case: ${TESTCASE:-none}" >&2
    exit 127
    ;;
  *)
    echo "ROLE must be client or server, not \"${ROLE:-}\"" >&2
    exit 1
    ;;
esac
if [ "$ROLE" = client ] && [ -z "${REQUESTS:-}" ]; then
  echo 'REQUESTS names no session to open' >&2
  exit 1
fi

/setup.sh || exit 1
case $ROLE in
  client)
    /wait-for-sim || exit 1
    set -- ${CLIENT_PARAMS:-} $REQUESTS
    ;;
  server)
    set -- --port=443 --certificate=/certs/cert.pem --private-key=/certs/priv.key ${SERVER_PARAMS:-} ${REQUESTS:-}
    ;;
esac
exec webtransport-go-endpoint "$ROLE" "--testcase=$TESTCASE" "--protocols=${PROTOCOLS:-}" \
  --root=/www "--downloads=${DOWNLOAD_DIR:-/downloads}" "$@"
