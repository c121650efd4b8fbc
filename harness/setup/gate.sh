#!/usr/bin/env bash
# A night's runs beside those of the baseline: summary.markdown, junit.xml and site/ in the night's folder, and the gate's
# exit code.
# usage: gate.sh HARNESS NIGHT BASELINE [words of `harness gate`]
set -euo pipefail
harness=$1 night=$2 baseline=$3
shift 3

"$harness" report html "$night/site" --store "$night" >/dev/null
if [ ! -d "$baseline" ]; then
  "$harness" report junit --store "$night" >"$night/junit.xml"
  "$harness" report summary --store "$night" >"$night/summary.markdown"
  "$harness" keep --store "$night" --into "$baseline" --series none
  echo "no baseline was there: this night is it now ($baseline)"
  exit 0
fi
code=0
"$harness" gate --baseline "$baseline" --store "$night" "$@" --junit "$night/junit.xml" --summary "$night/summary.markdown" || code=$?
# 1 is a closed gate; anything else is an accident.
[ "$code" -le 1 ] || exit "$code"
# Cells that the night had not stay in the baseline, so that they are missed as long as they are.
[ "$code" -ne 0 ] || "$harness" keep --store "$night" --into "$baseline" --series none
exit "$code"
