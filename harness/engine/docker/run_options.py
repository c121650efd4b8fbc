"""A service of a lab's Compose file → arguments of `docker` that make the same container as Compose. Pure.

Endpoints and proxies are new in every run, while their networks stay up. For so few containers Compose takes longer to
inspect the present state than Docker takes to start them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Labels by which Compose and other tools see which containers belong together.
PROJECT_LABEL, SERVICE_LABEL = "com.docker.compose.project", "com.docker.compose.service"

#: Keys of a service → option of `docker`, once for each entry.
_LIST_OPTIONS = {
    "cap_add": "--cap-add",
    "cap_drop": "--cap-drop",
    "dns": "--dns",
    "dns_opt": "--dns-option",
    "dns_search": "--dns-search",
    "extra_hosts": "--add-host",
    "security_opt": "--security-opt",
    "tmpfs": "--tmpfs",
    "volumes": "--volume",
}
_MAPPING_OPTIONS = {"environment": "--env", "labels": "--label", "sysctls": "--sysctl", "ulimits": "--ulimit"}
_SCALAR_OPTIONS = {
    "cgroup_parent": "--cgroup-parent",
    "cpu_shares": "--cpu-shares",
    "mem_limit": "--memory",
    "memswap_limit": "--memory-swap",
    "pids_limit": "--pids-limit",
    "pull_policy": "--pull",
}
_FLAG_OPTIONS = {"read_only": "--read-only"}
#: Keys that `launch` handles individually.
_OTHER_KEYS = {"image", "entrypoint", "logging", "networks", "stop_grace_period"}
_VARIABLE = re.compile(r"\$\{(?P<name>\w+):(?:\?[^}]*|-(?P<else>[^}]*))\}")


@dataclass(frozen=True)
class Launch:
    """The arguments that make a container."""

    words: tuple[str, ...]
    """Arguments of `docker create` or `docker run`, from the first option to the last argument of its program."""
    further: tuple[tuple[str, ...], ...]
    """Arguments of `docker network connect`, without the container, for each network after the first."""


def launch(service: Mapping[str, Any], name: str, project: str, networks: str, variables: Mapping[str, str]) -> Launch:
    """The arguments that make the container of a service of `compose_document`.

    `name`: of the service; `project`: the containers' project; `networks`: the project that has their networks;
    `variables`: values of the file's variables.
    """
    unsupported = (
        service.keys()
        - _LIST_OPTIONS.keys()
        - _MAPPING_OPTIONS.keys()
        - _SCALAR_OPTIONS.keys()
        - _FLAG_OPTIONS.keys()
        - _OTHER_KEYS
    )
    if unsupported:
        raise NotImplementedError(f"no option of docker for {', '.join(sorted(unsupported))}")
    (first, addresses), *extra_networks = service["networks"].items()
    options = ["--name", f"{project}-{name}", "--network", f"{networks}_{first}", *_address_options(addresses)]
    for label, value in ((PROJECT_LABEL, project), (SERVICE_LABEL, name)):
        options += ["--label", f"{label}={value}"]
    for key, option in _SCALAR_OPTIONS.items():
        if key in service:
            options += [option, _substitute(str(service[key]), variables)]
    options += [option for key, option in _FLAG_OPTIONS.items() if service.get(key)]
    for key, option in _LIST_OPTIONS.items():
        for entry in service.get(key, ()):
            options += [option, _substitute(str(entry), variables)]
    for key, option in _MAPPING_OPTIONS.items():
        for left, right in service.get(key, {}).items():
            options += [option, f"{left}={_substitute(str(right), variables)}"]
    options += ["--log-driver", service["logging"]["driver"]]
    for left, right in service["logging"]["options"].items():
        options += ["--log-opt", f"{left}={right}"]
    options += ["--stop-timeout", service["stop_grace_period"].removesuffix("s")]
    program = list(service.get("entrypoint", ()))
    if program:
        options += ["--entrypoint", program.pop(0)]
    further = tuple((*_address_options(place), f"{networks}_{network}") for network, place in extra_networks)
    return Launch((*options, service["image"], *program), further)


def _address_options(place: Mapping[str, str]) -> tuple[str, ...]:
    return "--ip", place["ipv4_address"], "--ip6", place["ipv6_address"]


def _substitute(text: str, variables: Mapping[str, str]) -> str:
    def value(variable: re.Match[str]) -> str:
        name, otherwise = variable["name"], variable["else"]
        return variables[name] if otherwise is None else variables.get(name, otherwise)

    return _VARIABLE.sub(value, text)
