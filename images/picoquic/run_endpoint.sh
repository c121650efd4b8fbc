#!/bin/sh
# What picoquic does beyond the test cases that every program takes; the program reads ASKED.
export ASKED="${TESTCASE:-}"
case $ASKED in
  chacha20 | ecn | v2) export TESTCASE=transfer ;;
  keyupdate) [ "${ROLE:-}" != client ] || export TESTCASE=transfer ;;
  versionnegotiation) [ "${ROLE:-}" != server ] || export TESTCASE=transfer ;;
  connectionmigration)
    if [ "${ROLE:-}" = server ]; then
      export TESTCASE=transfer
      # Its own addresses, at which it prefers another port.
      ADDRESS4=$(ip -oneline -4 address show to 193.167.0.0/16 scope global | sed -n '1s|.* inet \([^/]*\)/.*|\1|p')
      ADDRESS6=$(ip -oneline -6 address show to fd00:cafe:cafe::/48 scope global | sed -n '1s|.* inet6 \([^/]*\)/.*|\1|p')
      export ADDRESS4 ADDRESS6
    fi
    ;;
esac
exec /run_program.sh "picoquic-endpoint${IDLE_TIMEOUT:+-idle}"
