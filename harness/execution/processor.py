"""The processor of this machine, which runs and estimates of their durations name."""

from __future__ import annotations

from pathlib import Path

#: Fields of /proc/cpuinfo that identify the processor generation on x86.
_GENERATION = {"family": "cpu family", "model": "model"}


def cpu_model() -> str:
    """The processor of this machine: 'AMD EPYC (family 25, model 1)'; empty if the kernel names none.

    Vendors and hypervisors use one name for generations with different features.
    """
    fields = [line.partition(":") for line in _read_lines("/proc/cpuinfo")]
    cpu_info = {name.strip(): value.strip() for name, _, value in reversed(fields)}
    if "model name" not in cpu_info:
        return ""
    generation = ", ".join(f"{word} {cpu_info[name]}" for word, name in _GENERATION.items() if name in cpu_info)
    return f"{cpu_info['model name']} ({generation})" if generation else cpu_info["model name"]


def _read_lines(file: str) -> list[str]:
    try:
        return Path(file).read_text().splitlines()
    except OSError:
        return []
