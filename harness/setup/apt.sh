# shellcheck shell=bash
# Sourced by the scripts beside it: apt, one caller at a time, since those scripts run side by side and apt does not wait
# for its own locks. `state` names the directory of logs and marks.

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# Package lists that one script fetched a moment ago are as good for the next one.
apt_update() {
  local mark=${state:?}/apt-updated
  (
    flock 9
    if [ -n "$(find "$mark" -mmin -30 2>/dev/null)" ]; then exit 0; fi
    # What a package starts must not keep the lock.
    as_root apt-get update 9>&- && touch "$mark"
  ) 9>"$state/apt.lock"
}

apt_get_install() {
  (
    flock 9
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" 9>&-
  ) 9>"${state:?}/apt.lock"
}
