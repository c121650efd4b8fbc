"""Models whose docstrings are the documentation of what people write."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict

#: Models whose fields have no descriptions yet, in the order of their definitions.
_UNDOCUMENTED: list[type[BaseModel]] = []


class DocumentedModel(BaseModel):
    """A model whose JSON Schema has the docstrings of its fields as their descriptions.

    pydantic's own `use_attribute_docstrings` reads the source of every model when it is imported, which took 0.3 s of
    every command. Here it is read when the first JSON Schema is made. Before that `model_fields` has no descriptions.
    """

    # A validator is made on first use: most commands need few of them.
    model_config = ConfigDict(defer_build=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        _UNDOCUMENTED.append(cls)

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The JSON Schema, as pydantic makes it, with descriptions."""
        while _UNDOCUMENTED:
            # A model stands behind those that it consists of.
            model = _UNDOCUMENTED.pop(0)
            for name, text in _field_docstrings(model):
                if name in model.model_fields:  # else a variable of the class
                    model.model_fields[name].description = text
            model.model_rebuild(force=True)
        return super().model_json_schema(*args, **kwargs)


def _field_docstrings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """The fields of a class and of those it extends, each with the string below it in the source."""
    for part in reversed(model.__mro__):
        if not issubclass(part, DocumentedModel):
            continue
        definition = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0]
        assert isinstance(definition, ast.ClassDef)
        for field, below in itertools.pairwise(definition.body):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                yield field.target.id, inspect.cleandoc(str(below.value.value))
