#!/usr/bin/env bash
# Make sure a working Docker Engine with Compose v2 and Buildx is there.
#
# A Docker that works is used as it is and never touched. Otherwise, on Debian or Ubuntu with root or
# sudo, Engine, Compose and Buildx are installed from the distribution's own packages and the daemon is
# started, with systemd or without. Anywhere else the script says what to install and exits 3.
#
# Where the distribution has no Compose v2 package (Debian 12), Compose and Buildx come from the next
# Debian release (trixie). Only those two packages are taken, through an apt state of its own: the
# machine's apt configuration is left as it was.
set -euo pipefail

COMPOSE_MINIMUM=2.26
state=${1:?usage: docker.sh STATE_DIRECTORY}
log=$state/dockerd.log
mkdir -p "$state"
# shellcheck source=harness/setup/apt.sh
. "$(dirname "$0")/apt.sh"

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
  exit 3
}

engine_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }
compose_works() {
  local version
  version=$(docker compose version --short 2>/dev/null) || return 1
  at_least "$COMPOSE_MINIMUM" "${version#v}"
}
buildx_works() { docker buildx version >/dev/null 2>&1; }

if engine_answers && compose_works && buildx_works; then
  exit 0
fi

can_be_root() { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }

# shellcheck disable=SC1091
. /etc/os-release 2>/dev/null || true
family="${ID:-unknown} ${ID_LIKE:-}"
needed="Docker Engine 20.10 or newer, Docker Compose $COMPOSE_MINIMUM or newer (the 'docker compose' plugin) and Docker Buildx"
case $family in
  *debian*) ;;
  *) fail "no working Docker was found" "install and start $needed; then run this again" ;;
esac
can_be_root || fail "no working Docker was found, and neither root nor password-less sudo is at hand to install it" \
  "install and start $needed (Debian and Ubuntu: docker.io and its Compose v2 and Buildx packages), or run this as root"

installable() { [ -n "$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -v '(none)')" ]; }
apt_install() { apt_get_install "$@" >>"$state/apt.log" 2>&1 ||
  fail "apt-get could not install $*" "the last lines of $state/apt.log say why: $(tail -n 3 "$state/apt.log" | tr '\n' ' ')"; }

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
  as_root dpkg --install "$apt"/*.deb >>"$state/apt.log" 2>&1 ||
    fail "dpkg could not install $* of Debian 13" "see $state/apt.log"
}

if ! command -v dockerd >/dev/null 2>&1 || ! command -v docker >/dev/null 2>&1; then
  say "installing Docker Engine from ${PRETTY_NAME:-the distribution}'s packages"
  apt_update >>"$state/apt.log" 2>&1 || fail "apt-get update failed" "see $state/apt.log"
  apt_install docker.io iptables ca-certificates
  # Debian 13 splits the client from the daemon.
  if ! command -v docker >/dev/null 2>&1; then apt_install docker-cli; fi
fi
if ! compose_works || ! buildx_works; then
  say "installing Docker Compose and Buildx"
  candidate=$(apt-cache policy docker-compose 2>/dev/null | sed -n 's/^  Candidate: //p')
  if installable docker-compose-v2; then
    apt_install docker-compose-v2 docker-buildx
  elif [ -n "$candidate" ] && at_least "$COMPOSE_MINIMUM" "$candidate" && installable docker-buildx; then
    apt_install docker-compose docker-buildx
  else
    from_trixie docker-compose docker-buildx
  fi
fi
compose_works || fail "Docker Compose $COMPOSE_MINIMUM or newer is still missing" "install the 'docker compose' plugin by hand"
buildx_works || fail "Docker Buildx is still missing" "install the 'docker buildx' plugin by hand"

engine_answers && exit 0
say "starting the Docker daemon"
if [ -d /run/systemd/system ]; then
  as_root systemctl start docker
else
  # setsid: the daemon must outlive the terminal and not get its Ctrl-C.
  as_root sh -c "setsid dockerd >>'$log' 2>&1 </dev/null &"
fi
for _ in $(seq 300); do
  engine_answers && exit 0
  if [ "$(id -u)" != 0 ] && sudo -n docker version >/dev/null 2>&1; then
    fail "the Docker daemon runs, but this user may not use it" "add yourself to the group docker (sudo usermod -aG docker $(id -un)), log in again"
  fi
  sleep 0.1
done
fail "the Docker daemon did not answer within 30 s" "the last lines of $log: $(tail -n 5 "$log" 2>/dev/null | tr '\n' ' ')"
