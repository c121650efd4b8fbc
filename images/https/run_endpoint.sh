#!/bin/bash
# The endpoint contract with HTTP/2 over TLS 1.3 and TCP instead of QUIC: Debian's nginx as a server, curl as a client.
set -u

if [ "${TESTCASE:-}" != http2 ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi
if [ -n "${MOVES:-}" ]; then
  echo "a TCP connection keeps its address: MOVES=$MOVES" >&2
  exit 1
fi

# A list of words, of which this knows none.
for word in ${CLIENT_PARAMS:-} ${SERVER_PARAMS:-}; do
  echo "not an option of this endpoint: $word" >&2
  exit 1
done

/setup.sh || exit 1

# The kernel keeps the congestion control of TCP's connections, and their first windows, with the route (ip-route(8)).
settings=(${CONGCTL:+congctl "$CONGCTL"} ${INITCWND:+initcwnd "$INITCWND"} ${INITRWND:+initrwnd "$INITRWND"})
if [ "${#settings[@]}" != 0 ]; then
  for family in -4 -6; do
    # A route is a list of words. Its gateway is on the link, whose own route is gone (setup.sh).
    while read -r route; do
      # shellcheck disable=SC2086
      if ! ip "$family" route change $route onlink "${settings[@]}"; then
        echo "this kernel's TCP takes no ${settings[*]}" >&2
        exit 1
      fi
    done < <(ip "$family" route show | grep ' via ')
  done
fi

fetch() {
  if [ -z "${REQUESTS:-}" ]; then
    echo 'REQUESTS names no file to fetch' >&2
    exit 1
  fi
  if [ -n "${SESSION_DIR:-}" ]; then
    mkdir -p "$SESSION_DIR" || exit 1
    export SESSION_FILE=$SESSION_DIR/session.pem LD_PRELOAD=/usr/local/lib/session.so
  fi
  # As the first process of a container, curl would not hear SIGTERM. REQUESTS is a list of words.
  curl --http2 --tlsv1.3 --silent --show-error --fail --fail-early --insecure --no-buffer \
    --write-out '%{stderr}HTTP/%{http_version}\n' --output-dir /downloads --remote-name-all $REQUESTS &
  child=$!
  trap 'kill "$child" 2>/dev/null' TERM INT
  wait "$child"
}

serve() {
  # Nothing is served over QUIC; but a socket of it answers the simulator, which awaits servers by Version Negotiation.
  # nginx opens all its sockets before it serves any. Where the kernel has no IPv6, that of IPv6 cannot be made.
  listen='listen 443 ssl; listen 443 quic;'
  [ ! -e /proc/net/if_inet6 ] || listen+=' listen [::]:443 ssl;'
  configuration=/run/nginx-endpoint.conf
  cat >"$configuration" <<END || exit 1
# Root, because the folder of the served files need not be open to others.
user root;
worker_processes auto;
pid /run/nginx.pid;
error_log stderr warn;
events {}
http {
  map \$ssl_session_reused \$resumed { default false; r true; }
  log_format request 'nginx: resumed=\$resumed';
  access_log /dev/stdout request;
  default_type application/octet-stream;
  server {
    $listen
    http2 on;
    http3 off;
    ssl_protocols TLSv1.3;
    ssl_certificate /certs/cert.pem;
    ssl_certificate_key /certs/priv.key;
    root /www;
  }
}
END
  exec nginx -c "$configuration" -e stderr -g 'daemon off;'
}

case ${ROLE:-} in
  client)
    /wait-for-sim || exit 1
    fetch
    ;;
  server) serve ;;
  *)
    echo "ROLE must be client or server, not \"${ROLE:-}\"" >&2
    exit 1
    ;;
esac
