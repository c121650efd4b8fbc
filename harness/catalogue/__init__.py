"""YAML files → model. Every error gives file, line, column and reason, and suggests what was meant."""

from harness.catalogue.catalogue import IMAGES, MANIFEST, SCENARIOS, Catalogue
from harness.catalogue.json_schema import json_schema
from harness.scenario.loader import Position, Positions, load, read_yaml
from harness.scenario.validation_errors import Mistake

__all__ = [
    "IMAGES",
    "MANIFEST",
    "SCENARIOS",
    "Catalogue",
    "Mistake",
    "Position",
    "Positions",
    "json_schema",
    "load",
    "read_yaml",
]
