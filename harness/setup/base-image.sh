#!/usr/bin/env bash
# Make sure the base image debian:trixie-slim is there: pulled by its digest, or, where no registry has that within
# seconds, bootstrapped under the same tag from the machine's own Debian mirror with mmdebstrap.
set -euo pipefail

tag=debian:trixie-slim
# The index of trixie-20261005-slim, for every architecture. HARNESS_BASE_IMAGE names another one.
pinned=${HARNESS_BASE_IMAGE:-debian@sha256:a29215f6a35e51e22adffa17f89e9d2ef06214e64a2bad10d765c46aea49f11f}
state=${1:?usage: base-image.sh STATE_DIRECTORY}
PULL_SECONDS=${HARNESS_PULL_SECONDS:-20}

# shellcheck source=harness/setup/common.sh
. "$(dirname "$0")/common.sh"

docker image inspect "$tag" >/dev/null 2>&1 && exit 0
mkdir -p "$state"
say "about to pull $pinned as $tag"
if timeout "$PULL_SECONDS" docker pull --quiet "$pinned" >"$state/pull.log" 2>&1; then
  docker tag "$pinned" "$tag"
  exit 0
fi
say "no registry answered for $pinned; bootstrapping it with mmdebstrap"
if ! command -v mmdebstrap >/dev/null 2>&1; then
  command -v apt-get >/dev/null 2>&1 ||
    fail "$pinned could not be pulled: $(tail -n 1 "$state/pull.log")" "let this machine reach a registry, or load the image with 'docker load'"
  apt_get_install mmdebstrap || { apt_update >>"$state/apt.log" 2>&1 && apt_get_install mmdebstrap; } ||
    fail "$pinned could not be pulled and mmdebstrap could not be installed" "see $state/pull.log and $state/apt.log"
fi
# The mirror is the one this machine's apt uses; a machine that is not Debian's (Ubuntu) needs a pull.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -E '/debian/?$' | head -n 1) || true
[ -n "$mirror" ] || fail "$pinned could not be pulled, and this machine's apt names no Debian mirror" \
  "let this machine reach a registry, or load the image with 'docker load'"
mirror=${mirror%/}
archive=$(mktemp --tmpdir="$state" base.XXXXXX.tar)
trap 'rm -f "$archive"' EXIT
as_root mmdebstrap --quiet --variant=minbase --include=ca-certificates \
  --aptopt='Acquire::Languages "none"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  trixie "$archive" \
  "deb $mirror trixie main" "deb $mirror trixie-updates main" "deb ${mirror%/debian}/debian-security trixie-security main" \
  >>"$state/apt.log" 2>&1 || fail "mmdebstrap could not build $tag" "the last lines of $state/apt.log: $(tail -n 3 "$state/apt.log" | tr '\n' ' ')"
# The label lets `make clean` tell it from one that was pulled.
docker import --change 'CMD ["bash"]' --change 'LABEL org.quic-lab.image=1' --message 'bootstrapped with mmdebstrap' - "$tag" <"$archive" >/dev/null
