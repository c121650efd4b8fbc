#!/bin/sh
# Crates by a committed lock: `crates.lock` is a Cargo.lock without the lines that say from which registry each crate comes.
#
#     lock.sh write [FOLDER]     crates.lock → Cargo.lock, which `cargo build --locked` then holds every crate against
#     lock.sh renew [FOLDER]     the newest crates that Cargo.toml allows → crates.lock
#
# The name of the registry is what this machine's own cargo calls it. No registry is asked for it: cargo locks a crate
# of a folder that stands in for the registry.
set -eu
cd "${2:-.}"

registry() {
  scratch=$(mktemp -d)
  mkdir -p "$scratch/crates/known/src" "$scratch/src" "$scratch/.cargo"
  printf '[package]\nname = "known"\nversion = "1.0.0"\n' >"$scratch/crates/known/Cargo.toml"
  printf '{"files": {}, "package": "%064d"}\n' 0 >"$scratch/crates/known/.cargo-checksum.json"
  printf '[package]\nname = "asking"\nversion = "1.0.0"\n[dependencies]\nknown = "1"\n' >"$scratch/Cargo.toml"
  touch "$scratch/src/lib.rs" "$scratch/crates/known/src/lib.rs"
  printf '[source.crates-io]\nreplace-with = "folder"\n[source.folder]\ndirectory = "%s"\n' "$scratch/crates" \
    >"$scratch/.cargo/config.toml"
  (cd "$scratch" && cargo generate-lockfile --quiet --offline && sed -n 's/^source = //p' Cargo.lock)
  rm -rf "$scratch"
}

case $1 in
  write)
    source=$(registry)
    sed "s|^checksum = |source = $source\n&|" crates.lock >Cargo.lock
    ;;
  renew)
    rm -f Cargo.lock
    cargo generate-lockfile
    if grep '^source = ' Cargo.lock | grep -vF "$(registry)"; then
      echo "error: crates come from elsewhere than the registry" >&2
      exit 1
    fi
    grep -v '^source = ' Cargo.lock >crates.lock
    rm Cargo.lock
    ;;
  *) echo "usage: lock.sh write|renew [FOLDER]" >&2; exit 2 ;;
esac
