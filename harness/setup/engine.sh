#!/usr/bin/env bash
# Make sure a Docker Engine answers.
#
# One that works is used as it is and never touched. Otherwise, on Debian or Ubuntu with root or sudo, it is installed
# from the distribution's own packages and its daemon is started, with systemd or without. Anywhere else the script says
# what to install and exits 3.
#
# A daemon that somebody installed and that stands still may stand still on purpose: started, it starts that person's
# containers, and listens where they told it to. It is started where HARNESS_YES says so (`make setup YES=1`), and where
# it is nobody's: setup installed it, or has started it before, or nothing on the machine would have started it (no
# systemd) and it has no container.
set -euo pipefail

state=${1:?usage: engine.sh STATE_DIRECTORY}
log=$state/dockerd.log
mkdir -p "$state"
# shellcheck source=harness/setup/common.sh
. "$(dirname "$0")/common.sh"

# Marks: setup installed the Engine; setup has started its daemon.
installed=$state/docker-installed
started=$state/docker-started
systemd=$root/run/systemd/system

engine_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }
has_containers() { [ -n "$(as_root ls -A "$root/var/lib/docker/containers" 2>/dev/null)" ]; }
# Where systemd has the control groups, labs' containers have a slice of their own (harness/engine/docker/daemon.py), which
# a run in real time needs more of the processor for than others have. Nothing else is in it.
weigh_slice() {
  [ "$(docker info --format '{{.CgroupDriver}} {{.CgroupVersion}}' 2>/dev/null)" = 'systemd 2' ] || return 0
  [ "$(systemctl show --property CPUWeight --value quiclab.slice 2>/dev/null)" != 10000 ] || return 0
  if [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; then
    say "about to give the containers of labs precedence (systemctl set-property quiclab.slice CPUWeight=10000)"
    as_root systemctl set-property quiclab.slice CPUWeight=10000 ||
      say "systemd did not take it: other work on this machine makes the links of runs in real time late"
  else
    say "other work on this machine makes the links of runs in real time late; against that, once:" \
      "sudo systemctl set-property quiclab.slice CPUWeight=10000"
  fi
}
is_nobodys() {
  [ -e "$installed" ] || [ -e "$started" ] || { [ ! -d "$systemd" ] && ! has_containers; }
}

engine_answers && weigh_slice && exit 0
[ -z "${DOCKER_HOST:-}" ] || fail "no Docker answers at DOCKER_HOST=$DOCKER_HOST" "start it there, or unset DOCKER_HOST"
context=$(docker context show 2>/dev/null) || true
case $context in
  '' | default) ;;
  *) fail "no Docker answers in the context $context" "start it there, or go back to this machine's: docker context use default" ;;
esac
require_debian "no working Docker was found"
if ! command -v dockerd >/dev/null 2>&1 || ! command -v docker >/dev/null 2>&1; then
  say "about to install Docker Engine from ${PRETTY_NAME:-the distribution}'s packages, and to start its daemon"
  apt_update >>"$state/apt.log" 2>&1 || fail "apt-get update failed" "see $state/apt.log"
  command -v dockerd >/dev/null 2>&1 || touch "$installed"
  apt_install docker.io iptables ca-certificates
  # Debian 13 splits the client from the daemon.
  if ! command -v docker >/dev/null 2>&1; then apt_install docker-cli; fi
fi

engine_answers && weigh_slice && exit 0
[ -n "${HARNESS_YES:-}" ] || is_nobodys ||
  fail "Docker is installed on this machine, and its daemon stands still: setup does not start what is somebody else's" \
    "start it (sudo systemctl start docker), or have setup start it: make setup YES=1, or HARNESS_YES=1"
say "about to start the Docker daemon"
touch "$started"
if [ -d "$systemd" ]; then
  as_root systemctl start docker
else
  # setsid: the daemon must outlive the terminal and not get its Ctrl-C.
  as_root sh -c "setsid dockerd >>'$log' 2>&1 </dev/null &"
fi
for _ in $(seq 300); do
  engine_answers && weigh_slice && exit 0
  if [ "$(id -u)" != 0 ] && sudo -n docker version >/dev/null 2>&1; then
    fail "the Docker daemon runs, but this user may not use it" "add yourself to the group docker (sudo usermod -aG docker $(id -un)), log in again"
  fi
  sleep 0.1
done
fail "the Docker daemon did not answer within 30 s" "the last lines of $log: $(tail -n 5 "$log" 2>/dev/null | tr '\n' ' ')"
