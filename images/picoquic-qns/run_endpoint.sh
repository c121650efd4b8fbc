#!/bin/bash
# The endpoint contract of the QUIC interop runner, and our parameters, on top of picoquicdemo as the published image
# holds it. With DRY_RUN=1 it prints what it would execute, one word per line, and executes nothing.
set -u

refuse() {
  echo "$2" >&2
  exit "$1"
}

case ${TESTCASE:-} in
  http3) alpn=h3 ;;
  handshake | transfer) alpn=hq-interop ;;
  *) refuse 127 "unsupported test case: ${TESTCASE:-none}" ;;
esac
case ${ROLE:-} in
  client) read -r -a parameters <<<"${CLIENT_PARAMS:-}" ;;
  server) read -r -a parameters <<<"${SERVER_PARAMS:-}" ;;
  *) refuse 1 "ROLE must be client or server, not \"${ROLE:-}\"" ;;
esac

dry() { [ "${DRY_RUN:-}" = 1 ]; }

if dry; then
  program=picoquicdemo
else
  program=$(command -v picoquicdemo) || program=/picoquic/picoquicdemo
  [ -x "$program" ] || program=$(find / -xdev -type f -name picoquicdemo -perm -u+x 2>/dev/null | head -n 1)
  [ -n "$program" ] || refuse 1 'this image holds no picoquicdemo'
  help=$("$program" -h 2>&1)
fi

# The published image moves, and with it the options. What its program does not name is not asked of it.
names_option() { dry || grep -q -- "^ *-$1 " <<<"$help"; }
names_word() { dry || grep -q -- "$1" <<<"$help"; }

options=(-v 00000001)
gso=off
for word in "${parameters[@]}"; do
  value=${word#*=}
  case $word in
    --congestion-control=*)
      case $value in
        reno | cubic | bbr | bbr1 | dcubic | fast | prague | c4) ;;
        *) refuse 1 "no congestion control is called \"$value\"" ;;
      esac
      # picoquicdemo takes BBR for a name it does not know, and goes on.
      names_word "$value" || refuse 127 "this picoquicdemo has no $value"
      options+=(-G "$value")
      ;;
    --max-udp-payload=*)
      [[ $value =~ ^[0-9]+$ ]] || refuse 1 "\"$value\" is not a number of bytes"
      # -m counts the IPv4 and UDP headers.
      options+=(-m "$((value + 28))")
      ;;
    --gso=on | --gso=off) gso=$value ;;
    --bdp-seed=jump-start) ;; # what tickets and the server's memory do unasked
    --bdp-seed=bdp-frame)
      names_option j || refuse 127 'this picoquicdemo has no BDP frame'
      options+=(-j 1)
      ;;
    *) refuse 1 "unknown option: $word" ;;
  esac
done
[ "$gso" = on ] || options+=(-0)

# Tickets and tokens, which would otherwise lie in the current folder.
state=${SESSION_DIR:-/tmp/picoquic}
options+=(-T "$state/tickets.bin" -N "$state/tokens.bin")
# Without -L, the log ends after 100 packets.
[ -z "${QLOGDIR:-}" ] || options+=(-q "$QLOGDIR" -L)
# Older versions have no such option and write the keys always.
if [ -n "${SSLKEYLOGFILE:-}" ] && names_option 8; then
  options+=(-8)
fi

prepare() {
  # Upstream's own entry script does not look at the exit code either.
  /setup.sh
  mkdir -p "$state" ${QLOGDIR:+"$QLOGDIR"} || exit 1
}

# picoquicdemo leaves signals alone, and as the first process of a container would not hear SIGTERM.
run() {
  "$@" &
  local child=$!
  trap 'kill -TERM "$child" 2>/dev/null' TERM INT
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
  local url authority host port=443 scenario='' messages=/tmp/picoquicdemo.messages
  authority=${REQUESTS#https://}
  authority=${authority%%/*}
  host=$authority
  if [[ $authority =~ ^(.*):([0-9]+)$ ]]; then
    host=${BASH_REMATCH[1]}
    port=${BASH_REMATCH[2]}
  fi
  # All files at once: "-" names no stream to wait for.
  for url in $REQUESTS; do
    scenario+="-:/${url##*/};"
  done
  local words=("$program" "${options[@]}" -a "$alpn" -o /downloads "$host" "$port" "$scenario")
  if dry; then
    printf '%s\n' "${words[@]}"
    return
  fi
  prepare
  /wait-for-it.sh sim:57832 -s -t 60 || return 1
  run "${words[@]}" >"$messages" 2>&1
  local status=$?
  cat "$messages"
  # Not every version passes its result on as exit code.
  [ "$status" = 0 ] || return "$status"
  if grep -q 'exit with code = [^0]' "$messages"; then
    return 1
  fi
  for url in $REQUESTS; do
    if [ ! -e "/downloads/${url##*/}" ]; then
      echo "/downloads/${url##*/} is missing" >&2
      return 1
    fi
  done
}

server() {
  local words=("$program" "${options[@]}" -p 443 -c /certs/cert.pem -k /certs/priv.key -w /www)
  if dry; then
    printf '%s\n' "${words[@]}"
    return
  fi
  prepare
  run "${words[@]}"
}

if [ "$ROLE" = client ] && [ -z "${REQUESTS:-}" ]; then
  refuse 1 'REQUESTS names no file to fetch'
fi
"$ROLE"
