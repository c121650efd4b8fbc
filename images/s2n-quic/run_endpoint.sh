#!/bin/sh
# s2n-quic marks its datagrams (ECN) by itself.
case ${TESTCASE:-} in
  ecn) export TESTCASE=transfer ;;
esac
exec /run_program.sh s2n-quic-endpoint
