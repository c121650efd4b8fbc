"""The runner's result.json: written, validated and read (quic-interop-runner, run.py -j). Pure.

Outer lists of results are flat, client by client; each entry lists the cases of one pair. A test is identified by an
abbreviation, which the document itself explains: other documents may use other letters than ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from harness.analysis.interop.matrix import InteropMatrix, Pair, TestcaseResult
from harness.analysis.interop.registry import CASES, MEASUREMENTS
from harness.errors import InputError
from harness.formatting import format_value
from harness.store.records import parse_json

_WORDS = ("succeeded", "failed", "unsupported")
#: Key → the types of its value.
_KEYS: dict[str, tuple[type, ...]] = {
    "start_time": (int, float),
    "end_time": (int, float),
    "log_dir": (str,),
    "servers": (list,),
    "clients": (list,),
    "urls": (dict,),
    "tests": (dict,),
    "quic_version": (str,),
    "results": (list,),
    "measurements": (list,),
}


def to_document(
    matrix: InteropMatrix, titles: Mapping[str, str], urls: Mapping[str, str], start: float, end: float, log_dir: str
) -> dict[str, Any]:
    """The document. `titles`: case → its description; `urls`: implementation → its page; times in s since the epoch.

    An inconclusive result is null, like that of a case that the runner did not run.
    """
    tests = {abbr: {"name": name, "desc": titles.get(name, "")} for name, abbr in (CASES | MEASUREMENTS).items()}
    return {
        "start_time": start,
        "end_time": end,
        "log_dir": log_dir,
        "servers": list(matrix.servers),
        "clients": list(matrix.clients),
        "urls": {name: urls.get(name, "") for name in dict.fromkeys((*matrix.servers, *matrix.clients))},
        "tests": tests,
        "quic_version": "0x1",
        "results": [[_result(case, entry) for case, entry in matrix.cases(pair)] for pair in matrix.pairs],
        "measurements": [_measurements(matrix, pair) for pair in matrix.pairs],
    }


def _result(case: str, entry: TestcaseResult) -> dict[str, Any]:
    return {"abbr": CASES[case], "name": case, "result": entry.word if entry.word in _WORDS else None}


def _measurements(matrix: InteropMatrix, pair: Pair) -> list[dict[str, Any]]:
    return [
        {"name": name, "abbr": abbr, "result": "succeeded", "details": matrix.measured[pair, name]}
        for name, abbr in MEASUREMENTS.items()
        if (pair, name) in matrix.measured
    ]


def problems(document: Any) -> Iterator[str]:
    """How a document differs from what the runner writes; nothing if it is valid."""
    if not isinstance(document, dict):
        yield "it is no object"
        return
    is_wrong = False
    for key, kinds in _KEYS.items():
        if not isinstance(document.get(key), kinds):
            yield f"{key} is missing" if key not in document else f"{key} is no {kinds[-1].__name__}"
            is_wrong = True
    if is_wrong:
        return
    for key in ("start_time", "end_time"):
        if isinstance(document[key], bool) or not math.isfinite(document[key]):
            yield f"{key} is no time"
    yield from _name_problems(document)
    pairs = len(document["clients"]) * len(document["servers"])
    for key in ("results", "measurements"):
        if len(document[key]) != pairs:
            yield f"{key} has {len(document[key])} entries, and there are {pairs} pairs"
        for number, listed in enumerate(document[key]):
            yield from _entry_problems(f"{key}[{number}]", listed, document["tests"], key == "measurements")


def _name_problems(document: Mapping[str, Any]) -> Iterator[str]:
    for key in ("servers", "clients"):
        names = document[key]
        if not all(isinstance(name, str) for name in names):
            yield f"{key} has what is no name"
        for index, name in enumerate(names):
            if name in names[:index]:
                yield f"{key} has {format_value(name)} twice"
    abbreviations: dict[str, str] = {}
    for abbr, test in document["tests"].items():
        if not isinstance(test, dict) or not all(isinstance(test.get(key), str) for key in ("name", "desc")):
            yield f"tests.{abbr} has no name and desc"
        elif (duplicate := abbreviations.setdefault(test["name"], abbr)) != abbr:
            yield f"tests.{duplicate} and tests.{abbr} are both {format_value(test['name'])}"


def _entry_problems(place: str, listed: Any, tests: Mapping[str, Any], measurements: bool) -> Iterator[str]:
    if not isinstance(listed, list):
        yield f"{place} is no list"
        return
    abbreviations: set[str] = set()
    for entry in listed:
        if not isinstance(entry, dict) or not {"abbr", "name", "result"} <= entry.keys():
            yield f"{place} has an entry without abbr, name and result"
            continue
        abbr = entry["abbr"]
        if not isinstance(abbr, str) or abbr not in tests:
            yield f"{place}: {format_value(abbr)} is none of tests"
        elif abbr in abbreviations:
            yield f"{place} has {abbr} twice"
        elif isinstance(tests[abbr], dict) and entry["name"] != tests[abbr].get("name"):
            yield (
                f"{place}: {abbr} is {format_value(entry['name'])}, and in tests it is "
                f"{format_value(tests[abbr].get('name'))}"
            )
        elif entry["result"] is not None and entry["result"] not in _WORDS:
            yield f"{place}: {abbr} has the result {format_value(entry['result'])}"
        elif measurements and not isinstance(entry.get("details"), str):
            yield f"{place}: {abbr} has no details"
        if isinstance(abbr, str):
            abbreviations.add(abbr)


def parse(text: bytes, name: str) -> Any:
    """The document in a file's content, not yet validated. InputError if it is no JSON; `name`: the file's name."""
    try:
        return parse_json(text, once=True)
    except ValueError as error:
        raise InputError(f"{name} is no JSON: {error}", "it is what the interop runner's run.py -j writes") from error


def to_matrix(document: Any, name: str) -> InteropMatrix:
    """The matrix of a document. InputError if it is not as the runner writes it; `name`: the file's name."""
    defects = list(problems(document))
    if defects:
        raise InputError(f"{name} is no result.json of the interop runner: {defects[0]}", "it is what run.py -j writes")
    names = {abbr: test["name"] for abbr, test in document["tests"].items()}
    clients, servers = tuple(document["clients"]), tuple(document["servers"])
    pairs = [(client, server) for client in clients for server in servers]
    entries: dict[tuple[Pair, str], TestcaseResult] = {}
    measured: dict[tuple[Pair, str], str] = {}
    for pair, listed in zip(pairs, document["results"], strict=True):
        for entry in listed:
            if names[entry["abbr"]] in CASES and entry["result"] is not None:
                entries[pair, names[entry["abbr"]]] = TestcaseResult(entry["result"])
    for pair, listed in zip(pairs, document["measurements"], strict=True):
        measured |= {
            (pair, names[entry["abbr"]]): entry["details"] for entry in listed if names[entry["abbr"]] in MEASUREMENTS
        }
    return InteropMatrix(clients, servers, entries, measured)
