#!/bin/bash
# The endpoint contract of the QUIC interop runner on top of one of our own programs, all of which take the same
# options: run_program.sh PROGRAM.
set -u

program=$1
plan=single
options=()
case ${TESTCASE:-} in
  http3) options+=(--protocol=h3) ;;
  handshake | transfer) options+=(--protocol=hq-interop) ;;
  multiconnect) options+=(--protocol=hq-interop) plan=each ;;
  resumption) options+=(--protocol=hq-interop) plan=resume ;;
  zerortt) options+=(--protocol=hq-interop) plan=early-data ;;
  retry)
    options+=(--protocol=hq-interop)
    [ "${ROLE:-}" != server ] || options+=(--retry)
    ;;
  *)
    echo "unsupported test case: ${TESTCASE:-none}" >&2
    exit 127
    ;;
esac

case ${ROLE:-} in
  client)
    if [ -z "${REQUESTS:-}" ]; then
      echo 'REQUESTS names no file to fetch' >&2
      exit 1
    fi
    /setup.sh || exit 1
    /wait-for-sim || exit 1
    if [ -n "${SESSION_DIR:-}" ]; then
      mkdir -p "$SESSION_DIR" || exit 1
      options+=("--session-dir=$SESSION_DIR")
    fi
    # CLIENT_PARAMS and REQUESTS are lists of words.
    exec "$program" client "${options[@]}" --plan="$plan" --downloads=/downloads ${CLIENT_PARAMS:-} $REQUESTS
    ;;
  server)
    /setup.sh || exit 1
    exec "$program" server "${options[@]}" --port=443 --root=/www \
      --certificate=/certs/cert.pem --private-key=/certs/priv.key ${SERVER_PARAMS:-}
    ;;
  *)
    echo "ROLE must be client or server, not \"${ROLE:-}\"" >&2
    exit 1
    ;;
esac
