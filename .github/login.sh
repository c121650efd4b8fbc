#!/usr/bin/env bash
# Log in to a registry, named by its host and path, as REGISTRY_USER with REGISTRY_PASSWORD, or else with TOKEN. Without
# either nobody does, and what is public is to be had all the same.
# usage: login.sh REGISTRY
set -euo pipefail

registry=${1:?usage: login.sh REGISTRY}
password=${REGISTRY_PASSWORD:-${TOKEN:-}}
if [ -z "$password" ]; then
  echo "there is no password for ${registry%%/*} (the secret REGISTRY_PASSWORD): nobody is logged in"
  exit 0
fi
docker login --username "${REGISTRY_USER:?}" --password-stdin "${registry%%/*}" <<<"$password"
