#!/usr/bin/env bash
# Make sure Docker has Compose v2 and Buildx. Those that work are used as they are and never touched.
#
# On Debian or Ubuntu with root or sudo they are installed from the distribution's own packages; where it has no Compose
# v2 (Debian 12), from the next Debian release (trixie). Only those two packages are taken, through an apt state of its
# own: the machine's apt configuration is left as it was.
set -euo pipefail

state=${1:?usage: compose.sh STATE_DIRECTORY}
mkdir -p "$state"
state=$(cd "$state" && pwd)
# shellcheck source=harness/setup/common.sh
. "$(dirname "$0")/common.sh"

at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }
compose_works() {
  local version
  version=$(docker compose version --short 2>/dev/null) || return 1
  at_least "$COMPOSE_MINIMUM" "${version#v}"
}
buildx_works() { docker buildx version >/dev/null 2>&1; }

if compose_works && buildx_works; then
  exit 0
fi
require_debian "Docker Compose $COMPOSE_MINIMUM or newer, or Docker Buildx, is missing"
# Where that fails, older lists will do, or those of the next release.
apt_update >>"$state/apt.log" 2>&1 || true

candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -v '(none)' || true; }

# The packages of the next Debian release, fetched through a private apt state whose sources are the
# machine's own with the suite's name replaced.
from_trixie() {
  local apt=$state/apt source
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/sources"
  source=$(find /etc/apt/sources.list /etc/apt/sources.list.d -name '*.list' -o -name '*.sources' 2>/dev/null |
    xargs -r grep -lE "^(deb .*|Suites:.*)[[:space:]]${VERSION_CODENAME:?}([[:space:]]|\$)" | sort | head -n 1) || true
  [ -n "$source" ] || fail "no apt source names ${VERSION_CODENAME}" "install $needed by hand"
  sed "s/\b${VERSION_CODENAME}\b/trixie/g" "$source" >"$apt/sources/trixie.${source##*.}"
  local options=(-o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$apt/sources"
    -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User=root")
  as_root apt-get "${options[@]}" update >>"$state/apt.log" 2>&1 ||
    fail "apt-get update failed for Debian 13's packages" "see $state/apt.log"
  (cd "$apt" && rm -f ./*.deb && as_root apt-get "${options[@]}" download "$@" >>"$state/apt.log" 2>&1) ||
    fail "apt-get could not download $*" "see $state/apt.log"
  apt_install "$apt"/*.deb
}

compose=$(candidate docker-compose)
if [ -n "$(candidate docker-compose-v2)" ]; then
  apt_install docker-compose-v2 docker-buildx
elif [ -n "$compose" ] && at_least "$COMPOSE_MINIMUM" "$compose" && [ -n "$(candidate docker-buildx)" ]; then
  apt_install docker-compose docker-buildx
else
  from_trixie docker-compose docker-buildx
fi
compose_works || fail "Docker Compose $COMPOSE_MINIMUM or newer is still missing" "install the 'docker compose' plugin by hand"
buildx_works || fail "Docker Buildx is still missing" "install the 'docker buildx' plugin by hand"
