# shellcheck shell=bash
# Sourced by the scripts beside it: what they say, and apt, one caller at a time, since they run side by side and apt does
# not wait for its own locks. `state` names the directory of logs and marks. What is about to be installed or started is
# said before; nothing is removed for it.

# shellcheck disable=SC2034  # of the scripts that source this
COMPOSE_MINIMUM=2.26
needed="Docker Engine 20.10 or newer, Docker Compose $COMPOSE_MINIMUM or newer (the 'docker compose' plugin) and Docker Buildx"

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
  exit 3
}

# Another root of the file system than the machine's own, for the tests.
root=${SETUP_ROOT:-}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# This distribution's name and version; fails where packages of Docker cannot be installed here: $1 says what is missing.
# Packages are installed on Debian and its like alone; elsewhere the hint has the command.
require_debian() {
  # shellcheck disable=SC1091
  . "$root/etc/os-release" 2>/dev/null || true
  case " ${ID:-unknown} ${ID_LIKE:-} " in
    *" debian "*) ;;
    *" fedora "* | *" rhel "* | *" centos "*)
      # Docker's own packages are not in these distributions' repositories; Fedora's are called otherwise.
      case ${ID:-} in
        fedora) fail "$1" "sudo dnf install moby-engine docker-compose docker-buildx && sudo systemctl enable --now docker" ;;
      esac
      fail "$1" "add Docker's repository (docs.docker.com/engine/install), then: sudo dnf install docker-ce docker-compose-plugin docker-buildx-plugin && sudo systemctl enable --now docker"
      ;;
    *" arch "*) fail "$1" "sudo pacman -S --needed docker docker-compose docker-buildx && sudo systemctl enable --now docker" ;;
    *" suse "* | *" opensuse "*) fail "$1" "sudo zypper install docker docker-compose docker-buildx && sudo systemctl enable --now docker" ;;
    *" alpine "*) fail "$1" "apk add docker docker-cli-compose docker-cli-buildx bash && rc-update add docker && service docker start" ;;
    *) fail "$1" "install and start $needed; then run this again" ;;
  esac
  [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || fail "$1, and neither root nor password-less sudo is at hand to install it" \
    "install and start $needed (Debian and Ubuntu: docker.io and its Compose v2 and Buildx packages), or run this as root"
}

# Whatever changes the machine's packages, as root and alone. What a package starts must not keep the lock.
alone() {
  (
    flock 9
    as_root "$@" 9>&-
  ) 9>"${state:?}/apt.lock"
}

# Package lists that one script fetched a moment ago are as good for the next one.
apt_update() {
  (
    flock 9
    if [ -n "$(find "${state:?}/apt-updated" -mmin -30 2>/dev/null)" ]; then exit 0; fi
    as_root apt-get update 9>&- && touch "$state/apt-updated"
  ) 9>"${state:?}/apt.lock"
}

# Where a package could come only in place of another one, apt gives up: whoever put that there may need it.
apt_get_install() {
  say "about to install ${*##*/}, with what they depend on (apt-get)"
  alone env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-remove --no-install-recommends "$@" >>"$state/apt.log" 2>&1
}

apt_install() {
  apt_get_install "$@" ||
    fail "apt-get could not install $*" "the last lines of $state/apt.log say why: $(tail -n 3 "$state/apt.log" | tr '\n' ' ')"
}
