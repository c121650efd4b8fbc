"""The JSON Schema of a model, which editors complete and check files by."""

from __future__ import annotations

import json

from pydantic import BaseModel


def json_schema(model: type[BaseModel]) -> str:
    """The JSON Schema of a model, as text for a file that editors read."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **model.model_json_schema(by_alias=True)}
    # yaml-language-server speaks draft-07, where definitions live under `definitions`.
    text = json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=False)
    return text.replace('"$defs"', '"definitions"').replace("#/$defs/", "#/definitions/") + "\n"
