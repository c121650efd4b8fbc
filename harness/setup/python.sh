#!/usr/bin/env bash
# Make sure .venv has the Python environment: the versions of requirements.txt by the hashes of requirements.lock, and the
# harness itself. Where the processor lacks what polars is compiled for, its compatible runtime is added, which polars
# then prefers (requirements.compat.lock).
set -euo pipefail

checkout=${1:?usage: python.sh CHECKOUT}
here=$(cd "$(dirname "$0")" && pwd)
cd "$checkout"
state=.state

# shellcheck source=harness/setup/common.sh
. "$here/common.sh"

# The processor's features that polars' usual runtime executes, by Linux' names (BUILD_FEATURE_FLAGS of the package). A
# virtual machine may leave them out. Without one of them `import polars` is an illegal instruction.
POLARS_FEATURES='avx avx2 fma bmi1 bmi2 abm movbe popcnt'
compatible=
flags=$(sed -n 's/^flags[[:space:]]*: *//p' "$root/proc/cpuinfo" 2>/dev/null | head -n 1) || true
for feature in $POLARS_FEATURES; do
  case " $flags " in
    '  ' | *" $feature "*) ;;
    *)
      compatible='--requirement requirements.compat.lock'
      lacking=$feature
      ;;
  esac
done

stamp=.venv/installed
wanted=$(cat requirements.lock pyproject.toml ${compatible:+requirements.compat.lock} | sha256sum)
if [ -x .venv/bin/harness ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi

python=
for candidate in python3 python3.13 python3.12 python3.11; do
  if command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || fail "no Python 3.11 or newer was found" "install python3 (Debian 12, Ubuntu 24.04 or newer have it)"

say "about to install the Python environment into .venv (pip, the versions of requirements.lock)"
[ -z "${lacking:-}" ] || say "this processor lacks $lacking: polars gets its compatible runtime (requirements.compat.lock)"
mkdir -p "$state"
if ! "$python" -m venv --clear .venv >.state/python.log 2>&1; then
  # Debian and Ubuntu keep venv in a package of its own.
  command -v apt-get >/dev/null 2>&1 || fail "$python cannot make virtual environments" "install the venv module of $python"
  { apt_update >>.state/python.log 2>&1 && apt_get_install python3-venv; } ||
    fail "$python cannot make virtual environments" "install python3-venv; .state/apt.log has the details"
  "$python" -m venv --clear .venv >>.state/python.log 2>&1 || fail "$python cannot make virtual environments" "see .state/python.log"
fi
# Modules are compiled as they are first used: most of them never are.
# shellcheck disable=SC2086  # a list of words
.venv/bin/pip install --quiet --disable-pip-version-check --no-compile --require-hashes --requirement requirements.lock $compatible >>.state/python.log 2>&1 &&
  .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . >>.state/python.log 2>&1 ||
  fail "pip could not install the pinned versions: $(grep -i error .state/python.log | head -n 1)" "see .state/python.log; a proxy's authority goes into PIP_CERT"
printf '%s\n' "$wanted" >"$stamp"
