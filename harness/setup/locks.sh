#!/usr/bin/env bash
# Renew what pins the inputs of builds by their hashes: requirements*.lock, the requirements.txt of images, and crates.lock.
# Versions that are written down stay; of crates, what Cargo.toml leaves open becomes the newest. No file names a registry.
set -euo pipefail

checkout=${1:?usage: locks.sh CHECKOUT}
cd "$checkout"
UV=0.13.9
state=.state
uv=$state/uv/bin/uv
mkdir -p "$state"
[ "$("$uv" --version 2>/dev/null | cut -d' ' -f2)" = "$UV" ] || {
  python3 -m venv --clear "$state/uv"
  "$state/uv/bin/pip" install --quiet --disable-pip-version-check "uv==$UV"
}

# hash PYTHON INPUT OUTPUT: every version of INPUT with the hashes of all its files.
hash() {
  local fresh
  fresh=$(mktemp)
  UV_SYSTEM_CERTS=1 "$uv" pip compile --quiet --no-config --generate-hashes --no-deps --no-header --no-annotate \
    --python-version "$1" "$2" --output-file "$fresh"
  cat "$fresh" >"$3"
  rm "$fresh"
}
hash 3.11 requirements.txt requirements.lock
hash 3.11 requirements.compat.txt requirements.compat.lock
for file in images/aioquic images/qh3 images/ns3 tests/browser/image; do
  hash 3.13 "$file/requirements.txt" "$file/requirements.txt"
done

ca=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
rust=$(.venv/bin/python -c 'from harness.engine.images.build import Images; from pathlib import Path; print(Images(Path("images"), Path(".state")).rust.reference)')
find images -name Cargo.toml -printf '%h\n' | sort | while read -r folder; do
  docker run --rm --network host --volume "$ca:/run/ca.crt:ro" --env CARGO_HTTP_CAINFO=/run/ca.crt \
    --volume "$PWD/images/rust/endpoint:/rust/endpoint" --volume "$PWD/$folder:/src" "$rust" sh /rust/lock.sh renew /src
done
