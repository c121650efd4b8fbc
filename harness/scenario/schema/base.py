"""What all parts of the model have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ConfigDict

from harness.scenario.documented import DocumentedModel

#: Pattern of the names of implementations.
NAME = r"^[a-z0-9][a-z0-9._-]*$"
#: Pattern of a release: a version as its registry has it, without Go's leading v.
VERSION = r"^[0-9][A-Za-z0-9.+_-]*$"
#: Pattern of the name of an implementation, or of one of its releases.
NAME_OR_RELEASE = r"^[a-z0-9][a-z0-9._-]*(@[0-9][A-Za-z0-9.+_-]*)?$"
#: Pattern of a scenario's name: folders and file, none of which is '..' or begins with a dot. Figures and pages have
#: the same name.
SCENARIO_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$"
#: Pattern of the folder with an image's Dockerfile: '.', or one below.
BUILD_FOLDER = r"^(\.|[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*)$"
#: Pattern of the name of one of several paths: the name of a container, a network and a namespace contains it.
PATH_NAME = r"^[a-z][a-z0-9-]{0,15}$"
#: Pattern of a file in a scenario's folder, or below.
FILE_BESIDE = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,99}){0,7}$"
#: Pattern of the name of the objects of a page: metrics have it (`loaded_style`).
OBJECT_NAME = r"^[a-z][a-z0-9]{0,15}$"
#: Pattern of the priority of a request (RFC 9218 §4): urgency 0 to 7, and whether its response is of use in parts.
PRIORITY = r"^(u=[0-7](, i)?|i)$"
#: Pattern of a study's design, which selects the combinations of factors to run.
DESIGN = r"^(full|one-at-a-time|fractional\([1-9][0-9]?\)|random\([1-9][0-9]{0,3}\))$"
#: Pattern of the name of a set of settings, which appears in tables and sentences.
PROFILE = r"^[A-Za-z0-9][A-Za-z0-9 .,'’_-]{0,39}$"
COLOUR = r"^#[0-9a-fA-F]{6}$"
#: A reference to an image, as Docker reads it (distribution/reference, without its uncommon forms).
IMAGE = (
    r"^([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$"
)
#: Of a container: a folder of its own, no more than that of an image's program.
FOLDER = r"^(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$"
WEB_ADDRESS = r"^https?://[^\s/]+(/\S*)?$"
#: Pattern → description of what matches it, with an example after the semicolon.
FORMS = {
    NAME: "a name of lowercase letters, digits, '.', '_' and '-'; quic-go",
    NAME_OR_RELEASE: "a name of lowercase letters, digits, '.', '_' and '-', with @VERSION for a release; quic-go",
    SCENARIO_NAME: "a name of letters, digits, '.', '_', '-' and '/': it is that of the file; satellite/medium",
    FILE_BESIDE: "the name of a file in the scenario's folder, or below; lte.trace",
    BUILD_FOLDER: "a folder, '.' or the name of one below; .",
    PATH_NAME: "the name of a path: lowercase letters, digits and '-', 16 at most, a letter first; campus",
    OBJECT_NAME: "the name of objects: lowercase letters and digits, 16 at most, a letter first; style",
    PRIORITY: "a priority of RFC 9218: u=0 (first) to u=7, i where parts of it are of use; u=2, i",
    DESIGN: "a design: full, fractional(RESOLUTION), one-at-a-time or random(NUMBER); fractional(4)",
    PROFILE: "the name of a profile: letters, digits, spaces and marks, 40 at most; h2o's parameters",
    COLOUR: "a colour, '#' and six hexadecimal digits; \"#4e79a7\"",
    IMAGE: "the name of an image; registry.example/mine:1.2",
    FOLDER: "a folder, from the root on; /var/lib/nginx",
    WEB_ADDRESS: "a web address; https://example.org/mine",
}


class Part(DocumentedModel):
    """A frozen part of the model; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


def short_or(form: str) -> Callable[[dict[str, Any]], None]:
    """For a JSON Schema: what has parts may also be written as a text."""

    def extend(schema: dict[str, Any]) -> None:
        # A discriminator (OpenAPI) is not part of JSON Schema, and has no place for a text.
        del schema["discriminator"]
        schema["oneOf"] = [{"type": "string", "description": form}, *schema["oneOf"]]

    return extend
