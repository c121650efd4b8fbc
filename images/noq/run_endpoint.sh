#!/bin/sh
# What noq does beyond the test cases that every program takes; the program reads ASKED.
export ASKED="${TESTCASE:-}"
case $ASKED in
  chacha20 | ecn) export TESTCASE=transfer ;;
  keyupdate) [ "${ROLE:-}" != client ] || export TESTCASE=transfer ;;
  versionnegotiation) [ "${ROLE:-}" != server ] || export TESTCASE=transfer ;;
  # The lab's own: no early data after the first connection.
  zerortt-rejected) [ "${ROLE:-}" != server ] || export TESTCASE=zerortt ;;
esac
exec /run_program.sh noq-endpoint
