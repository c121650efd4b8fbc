#!/bin/sh
# Starts the harness in its container: where results go, which engine is the default, and whose the results are.
set -eu

# A cluster's worker or scheduler of the same package (docs/cluster.md).
[ "${1:-}" != dask ] || exec "$@"

here=${PWD%/}
if [ -z "${HARNESS_STORE:-}" ]; then
  HARNESS_STORE=/results
  if ! mountpoint -q /results; then
    [ -z "$here" ] || HARNESS_STORE=$here/results
    case ${here:-/}:${1:-} in
      /:run | /:reach | /:check) echo 'warning: no folder is mounted at /results: results go with this container' >&2 ;;
    esac
  fi
fi
if [ -n "${DOCKER_HOST:-}" ] || [ -S /var/run/docker.sock ]; then
  # The daemon gives these folders to the containers of endpoints by their paths.
  : "${HARNESS_ENGINE:=compose}" "${HARNESS_CACHE:=${here:+$here/.cache}}" "${HARNESS_STATE:=${here:+$here/.state}}"
fi
: "${HARNESS_ENGINE:=virtual}" "${HARNESS_CACHE:=/cache}" "${HARNESS_STATE:=/cache/.state}"
HARNESS_COMMIT=$(cat /opt/quic-lab/commit)
export HARNESS_STORE HARNESS_ENGINE HARNESS_CACHE HARNESS_STATE HARNESS_COMMIT

# Without --user, whoever owns the folder of the results is who writes there.
folder=$HARNESS_STORE
[ -d "$folder" ] || folder=${here:-/}
user=$(stat -c %u "$folder") group=$(stat -c %g "$folder")
if [ "$(id -u)" = 0 ] && [ "$user" != 0 ]; then
  export HOME="$HARNESS_STATE"
  socket=$(stat -c %g /var/run/docker.sock 2>/dev/null) || socket=$group
  exec setpriv --reuid "$user" --regid "$group" --groups "$socket" harness "$@"
fi
[ -w "${HOME:-/}" ] || export HOME="$HARNESS_STATE"
exec harness "$@"
