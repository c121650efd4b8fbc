#!/bin/sh
# What qh3 does beyond the test cases that every program takes; the program reads ASKED. It marks no datagrams.
export ASKED="${TESTCASE:-}"
case $ASKED in
  chacha20 | versionnegotiation) export TESTCASE=transfer ;;
  keyupdate) [ "${ROLE:-}" != client ] || export TESTCASE=transfer ;;
esac
exec /run_program.sh qh3-endpoint
