"""A cluster on Kubernetes: a scheduler and its workers as manifests (`kubectl apply -f`).

The manifests use only built-in objects: no operator is installed, and no privileges are needed. Certificates come from
a Secret that `kubectl create secret generic quic-lab-certificates --from-file=FOLDER` makes.
"""

from __future__ import annotations

from typing import Any

import yaml

NAME, PORT = "quic-lab", 8786
SECRET, CERTIFICATES = f"{NAME}-certificates", "/certificates"
#: Folders of the guests' memory and of the cache.
RAM, CACHE = "/ram", "/cache"
#: Any user except root.
_USER = 1000
_TLS = [
    word
    for option, name in (("ca-file", "ca"), ("cert", "cert"), ("key", "key"))
    for word in (f"--tls-{option}", f"{CERTIFICATES}/{name}.pem")
]

Manifest = dict[str, Any]


def manifests(image: str, workers: int, memory_gib: int, cache_gib: int) -> str:
    """YAML of a scheduler, its service, and `workers` workers with one core each.

    `image` contains Python and this package; `memory_gib` is the memory of a worker, including its guest, GiB;
    `cache_gib` is the size of its cache volume, GiB.
    """
    # A tmpfs counts as memory of the container that writes to it.
    ram, disk = {"medium": "Memory", "sizeLimit": f"{memory_gib * 512}Mi"}, {"sizeLimit": f"{cache_gib}Gi"}
    worker = _container(
        "worker",
        image,
        [*_worker_command(), "--memory-limit", f"{memory_gib}GiB"],
        {"cpu": "1", "memory": f"{memory_gib}Gi"},
        {RAM: {"emptyDir": ram}, CACHE: {"emptyDir": disk}},
        {
            "TMPDIR": RAM,
            "HARNESS_CACHE": f"{CACHE}/quic-lab",
            "HARNESS_CACHE_LIMIT": f"{max(1, cache_gib - 1)} GB",
            "HOME": CACHE,
        },
    )
    scheduler = _container(
        "scheduler",
        image,
        ["harness", "cluster", "scheduler", "--cluster-tls", CERTIFICATES, "--port", str(PORT)],
        {"cpu": "1", "memory": "2Gi"},
        {RAM: {"emptyDir": {}}},
        {"TMPDIR": RAM, "HOME": RAM},
    )
    service: Manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{NAME}-scheduler"},
        "spec": {"selector": _labels("scheduler"), "ports": [{"port": PORT}]},
    }
    documents = [_deployment("scheduler", 1, scheduler), service, _deployment("worker", workers, worker)]
    return str(yaml.safe_dump_all(documents, sort_keys=False, width=200))


def _worker_command() -> list[str]:
    address = f"tls://{NAME}-scheduler:{PORT}"
    return [
        "dask",
        "worker",
        address,
        "--nthreads",
        "1",
        "--nworkers",
        "1",
        "--no-dashboard",
        "--local-directory",
        RAM,
        *_TLS,
    ]


def _labels(role: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": role}


def _container(
    role: str,
    image: str,
    command: list[str],
    resources: dict[str, str],
    folders: dict[str, Manifest],
    environment: dict[str, str],
) -> Manifest:
    """The specification of a pod with one unprivileged container."""
    volumes = [{"name": path.strip("/"), **source} for path, source in folders.items()]
    return {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": role,
                "image": image,
                "command": command,
                "env": [{"name": name, "value": value} for name, value in environment.items()],
                "resources": {"requests": dict(resources), "limits": dict(resources)},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "certificates", "mountPath": CERTIFICATES, "readOnly": True},
                    *({"name": path.strip("/"), "mountPath": path} for path in folders),
                ],
            }
        ],
        "volumes": [{"name": "certificates", "secret": {"secretName": SECRET, "defaultMode": 0o440}}, *volumes],
    }


def _deployment(role: str, count: int, pod: Manifest) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{NAME}-{role}", "labels": _labels(role)},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": _labels(role)},
            "template": {"metadata": {"labels": _labels(role)}, "spec": pod},
        },
    }
