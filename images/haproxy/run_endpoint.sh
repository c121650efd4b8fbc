#!/bin/bash
# The endpoint contract of the QUIC interop runner on top of HAProxy: a server, configured anew at every start. HAProxy
# has no files of its own, so a lighttpd on a local socket reads them.
set -u

if [ "${ROLE:-}" != server ]; then
  echo "HAProxy is a server, not \"${ROLE:-}\"" >&2
  exit 127
fi

bind=
case ${TESTCASE:-} in
  http3) bind='alpn h3' ;;
  handshake | transfer | multiconnect | resumption | versionnegotiation) bind='alpn hq-interop' ;;
  chacha20) bind='alpn hq-interop ciphersuites TLS_CHACHA20_POLY1305_SHA256' ;;
  retry) bind='alpn hq-interop quic-force-retry' ;;
  *)
    echo "unsupported test case: ${TESTCASE:-none}" >&2
    exit 127
    ;;
esac

# SERVER_PARAMS is a list of words.
algorithm=cubic
window=
tune=()
for word in ${SERVER_PARAMS:-}; do
  value=${word#*=}
  if [[ $word =~ ^--congestion-control=(newreno|cubic)$ ]]; then
    algorithm=$value
  elif [[ $word =~ ^--max-cwnd=[0-9]+$ ]]; then
    window="($value)"
    # What is not acknowledged stays in buffers of 16 KiB, 30 of which would be all there are.
    tune+=("tune.quic.frontend.conn-tx-buffers.limit $(((value + 16383) / 16384))")
  elif [[ $word =~ ^--hystart=(on|off)$ ]]; then
    tune+=("tune.quic.cc-hystart $value")
  elif [[ $word =~ ^--idle-timeout=[0-9]+$ ]]; then
    tune+=("tune.quic.frontend.max-idle-timeout ${value}ms")
  else
    echo "not an option of this server: $word" >&2
    exit 1
  fi
done

# Where the kernel has no IPv6, its socket cannot be made.
addresses='quic4@:443'
[ ! -e /proc/net/if_inet6 ] || addresses+=',quic6@:443'

files=/run/lighttpd-endpoint.conf
cat >"$files" <<'EOF' || exit 1
server.bind = "/run/files.socket"
server.document-root = "/www"
server.errorlog = "/logs/lighttpd.log"
# A GET whose stream ends behind its header fields comes from HAProxy as one with a body, which is empty.
server.http-parseopts = ("method-get-body" => "enable")
EOF

configuration=/run/haproxy-endpoint.cfg
cat >"$configuration" <<EOF || exit 1
global
  # Debian's OpenSSL is used through HAProxy's compatibility layer.
  limited-quic
  # Otherwise as many as there may be open files, which are a million in some containers.
  maxconn 1000
  cluster-secret quic-lab
  # Connections that are open when it is to end get so long.
  hard-stop-after 1s
$(printf '  %s\n' "${tune[@]}")

crt-store certs
  load crt /certs/cert.pem key /certs/priv.key alias server

defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s

frontend quic
  bind $addresses ssl crt @certs/server quic-cc-algo $algorithm$window $bind
  default_backend files

backend files
  server lighttpd unix@/run/files.socket
EOF

/setup.sh || exit 1
# It returns once its socket is there.
lighttpd -f "$files" || exit 1

# As the first process of a container HAProxy would not hear SIGTERM, and its master would wait for lighttpd.
haproxy -db -f "$configuration" &
child=$!
trap 'kill -USR1 "$child" 2>/dev/null' TERM INT
wait "$child"
status=$?
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  status=$?
done
exit "$status"
