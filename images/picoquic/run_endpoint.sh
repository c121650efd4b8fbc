#!/bin/sh
# What picoquic does beyond the test cases that every program takes; the program reads ASKED.
export ASKED="${TESTCASE:-}"
case $ASKED in
  chacha20 | ecn | v2) export TESTCASE=transfer ;;
  keyupdate) [ "${ROLE:-}" != client ] || export TESTCASE=transfer ;;
esac
exec /run_program.sh picoquic-endpoint
