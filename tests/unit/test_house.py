"""What `tools/house.py` counts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.house import Measure, Module, bound_names, class_names, compares_engines, is_empty

_SOURCE = """
def first(one, *rest, key=None):
    found = [item for item in one]
    with open(key) as made:
        pass
    def inner(told):
        return told
    return lambda other: found

class Thing:
    asked = 1
"""


def test_names_are_those_that_functions_bind_each_once_a_function() -> None:
    assert sorted(bound_names(ast.parse(_SOURCE))) == [
        "found", "item", "key", "made", "one", "other", "rest", "told",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "empty"),
    [("one", True), ("_found", True), ("made_here", True), ("found_rate", False), ("rate", False), ("_", False)],
)
def test_a_name_of_empty_words_alone_is_empty(name: str, empty: bool) -> None:
    assert is_empty(name) == empty


def test_a_class_name_with_two_meanings_is_counted() -> None:
    package = [
        Module(f"harness.{name}", Path(name), 1, ast.parse(f"class Entry: ...\nclass {name.title()}: ..."))
        for name in ("store", "cache")
    ]
    assert class_names(package) == {"Entry": ["harness.store", "harness.cache"]}


@pytest.mark.parametrize(
    ("source", "asks"),
    [
        ('if engine == "compose": ...', True),
        ('x = engine in ("virtual", "other")', True),
        ('match engine:\n case "virtual": ...', True),
        ('x = {"compose": 1}[engine]', True),
        ('print("compose")', False),
        ('x = {"docker": 1, "compose": 2}', False),
        ('x = words[:1] == ["compose"]', False),
        ("x = engine.is_virtual", False),
    ],
)
def test_who_asks_what_an_engine_is_called(source: str, asks: bool) -> None:
    assert compares_engines(ast.parse(source)) == asks


def test_a_share_counts_to_a_tenth() -> None:
    assert not Measure("share", 1.04, 1.0, "%").is_exceeded
    assert Measure("share", 1.06, 1.0, "%").is_exceeded
