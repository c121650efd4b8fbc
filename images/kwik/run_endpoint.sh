#!/bin/sh
# What kwik does beyond the test cases that every program takes; the program reads ASKED. It marks no datagrams.
if [ "${ROLE:-}" = client ] && [ -n "${MOVES:-}" ]; then
  echo "a client of kwik keeps its address: MOVES=$MOVES" >&2
  exit 1
fi
export ASKED="${TESTCASE:-}"
case $ASKED in
  chacha20 | v2) export TESTCASE=transfer ;;
  keyupdate) [ "${ROLE:-}" != client ] || export TESTCASE=transfer ;;
  versionnegotiation) [ "${ROLE:-}" != server ] || export TESTCASE=transfer ;;
esac
exec /run_program.sh kwik-endpoint
