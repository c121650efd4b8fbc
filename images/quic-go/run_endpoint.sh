#!/bin/sh
# quic-go marks its datagrams (ECN) unless told not to. It has no interface for key updates and cipher suites.
case ${TESTCASE:-} in
  ecn) export TESTCASE=transfer ;;
esac
exec /run_program.sh quic-go-endpoint
