#!/usr/bin/env bash
# Make sure a Docker Engine answers.
#
# One that works is used as it is and never touched. Otherwise, on Debian or Ubuntu with root or sudo, it is installed
# from the distribution's own packages and its daemon is started, with systemd or without. Anywhere else the script says
# what to install and exits 3.
set -euo pipefail

state=${1:?usage: engine.sh STATE_DIRECTORY}
log=$state/dockerd.log
mkdir -p "$state"
# shellcheck source=harness/setup/common.sh
. "$(dirname "$0")/common.sh"

engine_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

engine_answers && exit 0
require_debian "no working Docker was found"
if ! command -v dockerd >/dev/null 2>&1 || ! command -v docker >/dev/null 2>&1; then
  say "installing Docker Engine from ${PRETTY_NAME:-the distribution}'s packages"
  apt_update >>"$state/apt.log" 2>&1 || fail "apt-get update failed" "see $state/apt.log"
  apt_install docker.io iptables ca-certificates
  # Debian 13 splits the client from the daemon.
  if ! command -v docker >/dev/null 2>&1; then apt_install docker-cli; fi
fi

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
