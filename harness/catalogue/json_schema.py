"""The JSON Schema of a model, with which editors complete and check files."""

from __future__ import annotations

import json

from pydantic import BaseModel


def json_schema(model: type[BaseModel]) -> str:
    """The JSON Schema of a model, as the text of a file for editors."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **model.model_json_schema(by_alias=True)}
    # yaml-language-server speaks draft-07, where definitions live under `definitions`.
    text = json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=False)
    return text.replace('"$defs"', '"definitions"').replace("#/$defs/", "#/definitions/") + "\n"
