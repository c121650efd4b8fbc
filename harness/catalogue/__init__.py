"""YAML files → model. Every error says file, line and column, the reason, and what was probably meant."""

from harness.catalogue.catalogue import IMAGES, MANIFEST, SCENARIOS, Catalogue
from harness.catalogue.document import Place, Positions, read_yaml
from harness.catalogue.load import load
from harness.catalogue.schema import json_schema
from harness.mistakes import Mistake

__all__ = [
    "IMAGES",
    "MANIFEST",
    "SCENARIOS",
    "Catalogue",
    "Mistake",
    "Place",
    "Positions",
    "json_schema",
    "load",
    "read_yaml",
]
