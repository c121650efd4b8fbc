#!/usr/bin/env bash
# Everything `make run` needs on this machine. What is there already is used as it is; a second call is quick.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$root/.state"

# Side by side goes what shares nothing: Python's packages download while Docker is installed, and the base image is made,
# for which the Engine is enough, while Compose is.
"$here/python.sh" "$root" &
python=$!
code=0
if "$here/engine.sh" "$root/.state"; then
  "$here/base-image.sh" "$root/.state" &
  base=$!
  "$here/compose.sh" "$root/.state" || code=$?
  wait "$base" || code=$?
else
  code=$?
fi
wait "$python" || code=$?
exit "$code"
