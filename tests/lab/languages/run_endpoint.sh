#!/bin/bash
# The endpoint contract for a program that reads ROLE and REQUESTS itself: run_endpoint.sh PROGRAM [WORD …].
case ${TESTCASE:-} in
  handshake | transfer) ;;
  *)
    echo "unsupported test case: ${TESTCASE:-none}" >&2
    exit 127
    ;;
esac
/setup.sh || exit 1
if [ "${ROLE:-}" = client ]; then
  /wait-for-sim || exit 1
fi
exec "$@"
