from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine import code_digest
from harness.engine.code_digest import (
    DOCKER_MODULES,
    EXCLUDED_MODULES,
    VIRTUAL_MODULES,
    effective_content,
    engine_code,
    statements,
)

_SOURCE = '''"""What it is."""

import os

#: A limit.
LIMIT = 3  # of them


class One:
    """One."""

    text: str
    """What it says."""

    def answer(self) -> str:
        """An answer."""
        return "# no comment"
'''


def test_words_are_left_out_and_nothing_else() -> None:
    assert statements(_SOURCE) == (
        'import os\nLIMIT = 3\nclass One:\n    text: str\n    def answer(self) -> str:\n        return "# no comment"'
    )


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("What it is.", "What it does.", True),
        ("#: A limit.", "#: The most.", True),
        ("# of them", "# of those", True),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("# no comment", "# a comment", False),
    ],
)
def test_words_cost_no_keys(old: str, new: str, same: bool) -> None:
    assert (statements(_SOURCE.replace(old, new)) == statements(_SOURCE)) == same


def test_the_engines_have_keys_of_their_own() -> None:
    assert engine_code("compose") != engine_code("virtual")


def test_every_module_of_the_engines_is_said_to_count_or_not() -> None:
    folder = Path(code_digest.__file__).parent
    there = {".".join(file.relative_to(folder).with_suffix("").parts) for file in folder.rglob("*.py")}
    counting = {*DOCKER_MODULES, *VIRTUAL_MODULES}
    assert counting | set(EXCLUDED_MODULES) == there
    assert not counting & set(EXCLUDED_MODULES)


def test_what_shares_a_line_with_a_docstring_counts() -> None:
    assert statements('"""Words."""; import os') == '"""Words."""; import os'
    assert statements('def f() -> None: "Words."') == 'def f() -> None: "Words."'
    assert statements('x = 1; """\nWords.\n"""') == 'x = 1; """\nWords.\n"""'
    assert statements('"""Words."""  # words') == ""


@pytest.mark.parametrize(
    ("name", "before", "after", "same"),
    [
        ("agent.py", b"x = 1  # one", b"x = 1  # 1", True),
        ("agent.py", b"x = 1", b"x = 2", False),
        # A shell or a C compiler may read it as code: `harness equivalent` can prove that it does nothing.
        ("run.sh", b"true # one", b"true # 1", False),
        ("lab.c", b"/* one */", b"/* 1 */", False),
        # No Python, whatever it is called.
        ("broken.py", b"x = = 1  # one", b"x = = 1  # 1", False),
        ("latin.py", b"# \xe9", b"# \xe8", False),
    ],
)
def test_words_in_an_image_count_where_they_cannot_be_told_from_code(
    name: str, before: bytes, after: bytes, same: bool
) -> None:
    assert (effective_content(name, before) == effective_content(name, after)) == same
