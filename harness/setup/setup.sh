#!/usr/bin/env bash
# Everything `make run` needs on this machine. What is there already is used as it is; a second call is quick.
# usage: setup.sh [--yes]
# --yes (or HARNESS_YES in the environment): a Docker daemon that somebody else installed, and that stands still, is
# started.
set -euo pipefail

# BSD's userland lacks timeout, flock and readlink -f, and macOS has bash 3.2: nothing below is tried there.
system=$(uname -s)
if [ "$system" != Linux ]; then
  printf "error: labs need Linux, and this is %s: here the harness works in a container\n" "$system" >&2
  printf "hint: docs/where-it-runs.md has the command\n" >&2
  exit 3
fi

for word; do
  case $word in
    --yes) export HARNESS_YES=yes ;;
    *)
      printf 'error: setup.sh takes --yes alone, not %s\nhint: usage: setup.sh [--yes]\n' "$word" >&2
      exit 2
      ;;
  esac
done

here=$(cd "$(dirname "$0")" && pwd)
checkout=$(cd "$here/../.." && pwd)
mkdir -p "$checkout/.state"

# Side by side goes what shares nothing: Python's packages download while Docker is installed, and the base image is made,
# for which the Engine is enough, while Compose is.
"$here/python.sh" "$checkout" &
python=$!
code=0
if "$here/engine.sh" "$checkout/.state"; then
  "$here/base-image.sh" "$checkout/.state" &
  base=$!
  "$here/compose.sh" "$checkout/.state" || code=$?
  wait "$base" || code=$?
else
  code=$?
fi
wait "$python" || code=$?
exit "$code"
