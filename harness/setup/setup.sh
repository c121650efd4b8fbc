#!/usr/bin/env bash
# Everything `make run` needs on this machine. What is there already is used as it is; a second call is quick.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$root/.state"

# Python packages download while Docker is installed: the two share nothing.
"$here/python.sh" "$root" &
python=$!
docker=0
"$here/docker.sh" "$root/.state" && "$here/base-image.sh" "$root/.state" || docker=$?
wait "$python"
exit "$docker"
