#!/bin/bash
# The endpoint contract of the QUIC interop runner on top of nginx: a server, configured anew at every start.
set -u

if [ "${ROLE:-}" != server ]; then
  echo "nginx is a server, not \"${ROLE:-}\"" >&2
  exit 127
fi

h3=off
hq=off
settings=
case ${TESTCASE:-} in
  http3) h3=on ;;
  handshake | transfer | multiconnect | resumption | versionnegotiation) hq=on ;;
  chacha20) hq=on settings='ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;' ;;
  retry) hq=on settings='quic_retry on;' ;;
  *)
    echo "unsupported test case: ${TESTCASE:-none}" >&2
    exit 127
    ;;
esac

# SERVER_PARAMS is a list of words.
for word in ${SERVER_PARAMS:-}; do
  value=${word#*=}
  if [[ $word =~ ^--gso=(on|off)$ ]]; then
    settings+=" quic_gso $value;"
  elif [[ $word =~ ^--stream-window=[0-9]+$ ]]; then
    settings+=" http3_stream_buffer_size $value;"
  elif [[ $word =~ ^--idle-timeout=[0-9]+$ ]]; then
    # Which is QUIC's idle timeout, too (ngx_http_v3_init_session).
    settings+=" keepalive_timeout ${value}ms;"
  else
    echo "not an option of this server: $word" >&2
    exit 1
  fi
done

# Workers share a port only with a socket each (reuseport). Where the kernel has no IPv6, its socket cannot be made.
listen='listen 443 quic reuseport;'
[ ! -e /proc/net/if_inet6 ] || listen+=' listen [::]:443 quic reuseport;'

configuration=/run/nginx-endpoint.conf
cat >"$configuration" <<EOF || exit 1
# Root, because the folder of the served files need not be open to others.
user root;
worker_processes auto;
pid /run/nginx.pid;
error_log stderr warn;
events {}
http {
  access_log off;
  default_type application/octet-stream;
  server {
    $listen
    http3 $h3;
    http3_hq $hq;
    $settings
    # Each address a NAT gives the client takes one of its connection IDs, and 2 is the least that there is.
    quic_active_connection_id_limit 8;
    # A connection is closed after 1000 by default; a test case asks for 1999 files in one.
    keepalive_requests 10000;
    ssl_certificate /certs/cert.pem;
    ssl_certificate_key /certs/priv.key;
    root /www;
  }
}
EOF

/setup.sh || exit 1
exec nginx -c "$configuration" -e stderr -g 'daemon off;'
