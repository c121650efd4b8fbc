#!/bin/bash
# The endpoint contract of the QUIC interop runner, and our names of parameters, on top of tquic's own tools.
set -u

# As a server it takes whichever cipher suite is offered alone.
alpn=hq-interop plan=single
case ${TESTCASE:-}:${ROLE:-} in
  http3:*) alpn=h3 ;;
  handshake:* | transfer:* | retry:* | chacha20:server | versionnegotiation:server) ;;
  multiconnect:*) plan=each ;;
  resumption:*) plan=resume ;;
  zerortt:*) plan=early-data ;;
  *)
    echo "unsupported test case: ${TESTCASE:-none}" >&2
    exit 127
    ;;
esac

# Unless another idle timeout is asked for, longer than any outage under test; the tools count in ms, whatever their help says.
options=(--log-level=WARN --idle-timeout=60000)
if [ -n "${QLOGDIR:-}" ]; then
  options+=("--qlog-dir=$QLOGDIR")
fi
if [ -n "${SSLKEYLOGFILE:-}" ]; then
  options+=("--keylog-file=$SSLKEYLOGFILE")
fi
early_data=on

# Adds the tools' own options for our parameters.
translate() {
  local word value
  for word in "$@"; do
    value=${word#*=}
    case $word in
      --congestion-control=*) options+=("--congestion-control-algor=$value") ;;
      --initial-cwnd=*) options+=("--initial-congestion-window=$value") ;;
      # In place of the one that stands there.
      --idle-timeout=*) options[1]=$word ;;
      --initial-rtt=*) options+=("--initial-rtt=$value") ;;
      --max-udp-payload=*)
        # The tools take 1200 for "as large as can be found", and less for 1200.
        if ! [ "$value" -gt 1200 ]; then
          echo "tquic takes --max-udp-payload from 1201, not $value" >&2
          return 1
        fi
        options+=("--send-udp-payload-size=$value")
        ;;
      --zero-rtt=on | --zero-rtt=off)
        if [ "$ROLE" != client ]; then
          echo "a server of tquic always takes early data: $word" >&2
          return 1
        fi
        early_data=$value
        ;;
      *)
        echo "tquic does not honour $word" >&2
        return 1
        ;;
    esac
  done
}

# Runs a program that a signal to this script, the container's first process, shall end too.
run() {
  local signal=$1
  shift
  "$@" &
  local child=$!
  ended=no
  trap 'ended=yes; kill "-$signal" "$child" 2>/dev/null' TERM INT
  wait "$child"
  local status=$?
  while kill -0 "$child" 2>/dev/null; do
    wait "$child"
    status=$?
  done
  # What a signal ended is told by the signal. All else that failed is 1: 127 would say that the test case is not supported.
  return "$((status > 128 ? status : status != 0))"
}

# Fetches files over one connection.
fetch() {
  local statistics=/tmp/tquic_client.statistics count=$#
  # Without the threshold the client would try ten times to connect.
  run INT tquic_client "${options[@]}" "${session[@]}" --alpn="$alpn" --dump-dir=/downloads \
    --max-concurrent-requests="$count" --connection-failure-threshold=1 "$@" >"$statistics"
  local status=$?
  cat "$statistics" >&2
  [ "$status" = 0 ] || return "$status"
  # The program exits with 0 whatever happens, and begins anew where a connection breaks.
  if ! grep -q '^conns: total 1,' "$statistics" || ! grep -q "^requests: .* success $count\$" "$statistics"; then
    echo 'a request failed, or took more than one connection' >&2
    return 1
  fi
}

client() {
  local url urls place=${SESSION_DIR:-}
  # REQUESTS is a list of words.
  read -r -a urls <<<"$REQUESTS"
  session=()
  case $plan in
    resume | early-data) place=${place:-/tmp/tquic} ;;
  esac
  if [ -n "$place" ]; then
    mkdir -p "$place" || return 1
    session=("--session-file=$place/session")
    # What keeps sessions uses early data unless told not to; a test case says itself whether it wants any.
    [ "$early_data" = off ] || [ "$plan" = resume ] || session+=(--enable-early-data)
  fi
  case $plan in
    single) fetch "${urls[@]}" ;;
    each)
      for url in "${urls[@]}"; do
        fetch "$url" || return
      done
      ;;
    resume | early-data)
      fetch "${urls[0]}" || return
      [ "${#urls[@]}" = 1 ] || fetch "${urls[@]:1}"
      ;;
  esac
}

server() {
  [ "$TESTCASE" != retry ] || options+=(--enable-retry)
  # It ends on the signal without a handler, and writes its logs without a buffer. Its one socket serves both IP versions.
  run TERM tquic_server "${options[@]}" '--listen=[::]:443' --root=/www --cert=/certs/cert.pem --key=/certs/priv.key
  local status=$?
  [ "$ended" = no ] || status=0
  return "$status"
}

case ${ROLE:-} in
  client)
    if [ -z "${REQUESTS:-}" ]; then
      echo 'REQUESTS names no file to fetch' >&2
      exit 1
    fi
    if [ -n "${MOVES:-}" ]; then
      echo "a client of tquic keeps its address: MOVES=$MOVES" >&2
      exit 1
    fi
    translate ${CLIENT_PARAMS:-} || exit 1
    /setup.sh || exit 1
    /wait-for-sim || exit 1
    client
    ;;
  server)
    translate ${SERVER_PARAMS:-} || exit 1
    /setup.sh || exit 1
    server
    ;;
  *)
    echo "ROLE must be client or server, not \"${ROLE:-}\"" >&2
    exit 1
    ;;
esac
