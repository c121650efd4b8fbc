#!/bin/bash
# The endpoint contract of the QUIC interop runner on top of ngtcp2's example programs, which speak HTTP/3 only.
set -u

if [ "${TESTCASE:-}" != http3 ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi

# Quiet, because the programs otherwise print several lines per packet.
options=(--quiet --no-quic-dump --no-http-dump --timeout=60s)
if [ -n "${QLOGDIR:-}" ]; then
  mkdir -p "$QLOGDIR" || exit 1
  options+=("--qlog-dir=$QLOGDIR")
fi

# The programs end in good order on SIGINT and, as the first process of a container, would not hear SIGTERM.
preloaded=/usr/local/lib/random_device.so
run() {
  LD_PRELOAD=$preloaded "$@" &
  local child=$!
  trap 'kill -INT "$child" 2>/dev/null' TERM INT
  wait "$child"
  local status=$?
  while kill -0 "$child" 2>/dev/null; do
    wait "$child"
    status=$?
  done
  # What a signal ended is told by the signal. All else that failed is 1: 127 would say that the test case is not supported.
  return "$((status > 128 ? status : status != 0))"
}

client() {
  local file url messages=/tmp/gtlsclient.messages authority host port
  url=${REQUESTS%% *}
  authority=${url#https://}
  authority=${authority%%/*}
  port=443
  host=$authority
  if [[ $authority =~ ^(.*):([0-9]+)$ ]]; then
    host=${BASH_REMATCH[1]}
    port=${BASH_REMATCH[2]}
  fi
  host=${host#[} host=${host%]}
  options+=(--download=/downloads --exit-on-all-streams-close --no-preferred-addr)
  if [ -n "${SESSION_DIR:-}" ]; then
    mkdir -p "$SESSION_DIR" || return 1
    options+=("--session-file=$SESSION_DIR/session.pem" "--tp-file=$SESSION_DIR/transport-parameters")
    # A server on quic-go 0.65 fails to decrypt what follows early data unless packet numbers start at 0.
    options+=(--initial-pkt-num=0)
    # A resumed connection may bring no further ticket (s2n-tls sends none): the one at hand has to do.
    [ -s "$SESSION_DIR/session.pem" ] || options+=(--wait-for-ticket)
  fi
  if [ -n "${MOVES:-}" ]; then
    preloaded+=:/usr/local/lib/moves.so
    # The mark by which moves.so knows its timer.
    options+=(--change-local-addr=7777777s)
  fi
  # CLIENT_PARAMS and REQUESTS are lists of words. The program exits with 0 whatever happens; what went wrong
  # stands in its messages.
  run gtlsclient "${options[@]}" ${CLIENT_PARAMS:-} "$host" "$port" $REQUESTS 2>"$messages"
  local status=$?
  cat "$messages" >&2
  [ "$status" = 0 ] || return "$status"
  if grep -q 'ERR_' "$messages"; then
    return 1
  fi
  for url in $REQUESTS; do
    file=/downloads/${url##*/}
    if [ ! -e "$file" ]; then
      echo "$file is missing" >&2
      return 1
    fi
  done
}

case ${ROLE:-} in
  client)
    if [ -z "${REQUESTS:-}" ]; then
      echo 'REQUESTS names no file to fetch' >&2
      exit 1
    fi
    /setup.sh || exit 1
    /wait-for-sim || exit 1
    client
    ;;
  server)
    /setup.sh || exit 1
    run gtlsserver "${options[@]}" --htdocs=/www ${SERVER_PARAMS:-} '*' 443 /certs/priv.key /certs/cert.pem
    ;;
  *)
    echo "ROLE must be client or server, not \"${ROLE:-}\"" >&2
    exit 1
    ;;
esac
