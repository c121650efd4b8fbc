#!/bin/bash
# The endpoint contract of the QUIC interop runner on top of the h2o server, which reads our parameters from a
# configuration file. With DRY_RUN=1 it prints the command, one word per line, and the file, and executes nothing.
set -u

refuse() {
  echo "$2" >&2
  exit "$1"
}

[ "${TESTCASE:-}" = http3 ] || refuse 127 "unsupported test case: ${TESTCASE:-none}"
case ${ROLE:-} in
  server) read -r -a parameters <<<"${SERVER_PARAMS:-}" ;;
  client) refuse 127 'h2o is a server' ;;
  *) refuse 1 "ROLE must be client or server, not \"${ROLE:-}\"" ;;
esac

number() {
  [[ $1 =~ ^[0-9]+$ ]] || refuse 1 "\"$1\" is not a number"
}

# What is not asked for is left to h2o, so that its defaults are its own.
listen=() quic=() global=() pacing='' seed=''
for word in "${parameters[@]}"; do
  value=${word#*=}
  case $word in
    --congestion-control=reno) listen+=('cc: Reno') ;;
    --congestion-control=cubic) listen+=('cc: Cubic') ;;
    --congestion-control=pico) listen+=('cc: Pico') ;;
    --initial-cwnd=*) number "$value" && listen+=("initcwnd: $value") ;;
    --max-udp-payload=*) number "$value" && quic+=("max-udp-payload-size: $value") ;;
    --pacing=on | --pacing=off) pacing=$value ;;
    --ecn=on | --ecn=off) quic+=("ecn: ${value^^}") ;;
    --gso=on | --gso=off) global+=("http3-gso: ${value^^}") ;;
    --bdp-seed=off | --bdp-seed=jump-start) seed=$value ;;
    *) refuse 1 "unknown option or value: $word" ;;
  esac
done
if [ "$seed" = jump-start ]; then
  # quicly jumps only where it paces.
  [ "$pacing" != off ] || refuse 1 'jump-start needs pacing'
  pacing=on
  # The cap is in packets, and beyond the bandwidth-delay product of every path here.
  quic+=('jumpstart-max: 65535')
fi
[ -z "$pacing" ] || quic+=("pacing: ${pacing^^}")

configuration() {
  cat <<'END'
user: root
num-threads: 1
# Without a limit, a stop waits for every client to go.
http3-graceful-shutdown-timeout: 1
END
  [ "${#global[@]}" = 0 ] || printf '%s\n' "${global[@]}"
  cat <<'END'
listen:
  port: 443
  ssl:
    certificate-file: /certs/cert.pem
    key-file: /certs/priv.key
    # No second process for the key, and nobody to ask about a certificate made here.
    neverbleed: OFF
    ocsp-update-interval: 0
END
  [ "${#listen[@]}" = 0 ] || printf '  %s\n' "${listen[@]}"
  if [ "${#quic[@]}" = 0 ]; then
    echo '  type: quic'
  else
    echo '  quic:'
    printf '    %s\n' "${quic[@]}"
  fi
  cat <<'END'
hosts:
  default:
    paths:
      /:
        file.dir: /www
END
}

words=(h2o --conf /tmp/h2o.conf)
if [ "${DRY_RUN:-}" = 1 ]; then
  printf '%s\n' "${words[@]}"
  configuration
  exit
fi
configuration >/tmp/h2o.conf || exit 1
/setup.sh || exit 1
exec "${words[@]}"
