#!/bin/bash
# A generator of background traffic, not an endpoint of QUIC: it plays one end of the flow that TRAFFIC describes.
set -u

if [ "${TESTCASE:-}" != traffic ]; then
  echo "unsupported test case: ${TESTCASE:-none}" >&2
  exit 127
fi

/setup.sh || exit 1

# The kernel keeps the first windows of TCP's connections with the route (ip-route(8)).
windows=(${INITCWND:+initcwnd "$INITCWND"} ${INITRWND:+initrwnd "$INITRWND"})
if [ "${#windows[@]}" != 0 ]; then
  for family in -4 -6; do
    # A route is a list of words. Its gateway is on the link, whose own route is gone (setup.sh).
    while read -r route; do
      # shellcheck disable=SC2086
      ip "$family" route change $route onlink "${windows[@]}" || exit 1
    done < <(ip "$family" route show | grep ' via ')
  done
fi

case ${ROLE:-} in
  client) /wait-for-sim || exit 1 ;;
  server) ;;
  *)
    echo "ROLE must be client or server, not \"${ROLE:-}\"" >&2
    exit 1
    ;;
esac
exec python3 -m traffic "$ROLE"
