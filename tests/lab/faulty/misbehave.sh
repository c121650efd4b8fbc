#!/bin/bash
# Behaves like the endpoint underneath, but for $FAULT, which names a role and a fault: client-crash …
endpoint() { exec /run_endpoint.sh; }

case "$ROLE-${FAULT#*-}" in
  "${FAULT%%-*}-crash") echo "the last words of the $ROLE" >&2; exit 7 ;;
  "${FAULT%%-*}-hang") exec sleep 1000 ;;
  "${FAULT%%-*}-refuse") exit 127 ;;
  "${FAULT%%-*}-flood") mkdir -p /logs/qlog; yes "a line of log" >/logs/qlog/flood; exit 1 ;;
  "${FAULT%%-*}-spin") while :; do :; done ;;
  # Who is not its namespace's first process can kill itself: the shell then says 137.
  "${FAULT%%-*}-suicide") bash -c 'kill -KILL $$'; exit $? ;;
  # Up to 300 MB, for whoever limits its memory meanwhile.
  "${FAULT%%-*}-hoard") sleep 4; head -c 300M /dev/zero | tail >/dev/null; exit $? ;;
  "${FAULT%%-*}-eat") dd if=/dev/zero of=/dev/null bs=1500M count=1 ;;
  client-short | client-wrong)
    [ "${FAULT%%-*}" = client ] || endpoint
    /run_endpoint.sh || exit 1
    for file in /downloads/*; do
      if [ "$FAULT" = client-short ]; then truncate -s -1 "$file"; else printf X | dd of="$file" bs=1 seek=4711 conv=notrunc status=none; fi
    done
    exit 0
    ;;
esac
endpoint
