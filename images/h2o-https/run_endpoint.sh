#!/bin/bash
# The endpoint contract with HTTP/2 over TLS 1.3 and TCP instead of QUIC: h2o as a server.
set -u

if [ "${TESTCASE:-}" != http2 ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi
if [ "${ROLE:-}" != server ]; then
  echo "h2o is a server, not \"${ROLE:-}\"" >&2
  exit 127
fi

# A list of words, of which this knows none.
for word in ${SERVER_PARAMS:-}; do
  echo "not an option of this endpoint: $word" >&2
  exit 1
done

/setup.sh || exit 1

# The kernel keeps the congestion control of TCP's connections, and their first windows, with the route (ip-route(8)).
settings=(${CONGCTL:+congctl "$CONGCTL"} ${INITCWND:+initcwnd "$INITCWND"})
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

configuration=/run/h2o-endpoint.yaml
{
  cat <<'END'
# Root, because the folder of the served files need not be open to others.
user: root
pid-file: /run/h2o.pid
error-log: /dev/stderr
access-log: {path: /dev/stdout, format: "h2o: %r %s %b resumed=%{ssl.session-reused}x protocol=%{ssl.protocol-version}x"}
hosts:
  default:
    paths:
      /: {file.dir: /www}
END
  # Where the kernel has no IPv6, its socket cannot be made. Each address is a directive of its own.
  for address in 0.0.0.0 $([ ! -e /proc/net/if_inet6 ] || echo ::); do
    echo "listen: {host: \"$address\", port: 443, ssl: {certificate-file: /certs/cert.pem, key-file: /certs/priv.key}}"
  done
} >"$configuration" || exit 1

answer-versions &
exec h2o --mode worker --conf "$configuration"
