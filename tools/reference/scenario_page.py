"""docs/scenario.md: the scenario format, every key with what it takes, its default and an example.

From the model: keys, docstrings, types and defaults are those of `harness.scenario.schema`. Examples are taken out of
whole scenario files, which the page shows too, so that each is one that works.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from harness.errors import InputError
from harness.formatting import escape_cell
from harness.netem import find_inexpressible
from harness.planning.sweep import CPU_COSTS, DIRECTIONS, PROPERTIES
from harness.report.markdown import table_row
from harness.scenario.parameters import PARAMETERS, WrittenNumber, WrittenValue
from harness.scenario.schema import Link, Page, Scenario, Trace
from harness.scenario.schema.trace import READ
from harness.units import Cost, Duration, Percentage, Quantity, QueueSize, Rate, Size

#: (model, key) → how somebody wrote it.
Examples = dict[tuple[str, str], str]

_QUANTITIES: tuple[type[Quantity], ...] = (Rate, Duration, Size, Percentage, Cost)
_BOUNDS = ((Ge, "ge", "from"), (Gt, "gt", "above"), (Le, "le", "to"), (Lt, "lt", "below"))
#: Characters of an example in a table; what is longer stands in the files below.
_LONGEST = 60
#: Instead of a longer one.
_BELOW = "[below](#examples)"

_HEAD = """# The scenario format

Generated (`make generate`) from [the model](../harness/scenario/schema) and [the examples](scenarios) at the end of
this page. A scenario is one YAML file below `scenarios/`, and its path there is its name. Its first line names the
schema, so that an editor completes keys and checks values; `harness validate` names every mistake with its line and
column, and `harness explain` says in words and figures what a file amounts to before anything runs. An unknown key is
an error.

## A link, from its queue to its end

A packet passes these in order. Each is a key of a [link](#link), and all but `rate` and `delay` may be left out.

1. `queue` holds it until the bottleneck has sent those before it. A size alone (`50 kB`, `25 packets`, `100 ms`,
   `1 BDP`) is a queue that drops what does not fit. The name of a discipline alone has Linux's defaults: `codel`,
   `fq_codel`, `pie`, `fq_pie`, `cake`, `sfq`, `dualpi2`. With keys you choose the parameters:
   `{discipline: codel, target: 10 ms}`.
2. `rate` is how fast the bottleneck sends. `service` and `burst` say when, if not one packet behind the other.
3. `ecn` is a node that changes the ECN field: it clears it (`bleach`), rewrites ECT(1) as ECT(0), marks, or drops.
4. `drop` and `corrupt` hit UDP datagrams by their number or by chance.
5. `loss` loses some packets, independently or in bursts. `duplicate` sends some twice.
6. `delay` is the time on the way. `jitter` varies it: a time alone varies it evenly, and packets overtake each other.
   With keys you choose the distribution, and a packet waits for the one before it unless you write `order: free`.
   `reorder` lets some packets leave early.

## How values are written

A number stands with its unit, always: `50 Mbit/s`, never `50000000`.

"""


def scenario_page(files: Mapping[str, str], scenarios: Mapping[str, Scenario]) -> str:
    """The page. `files`: name → text of each example; `scenarios`: the same as they were read.

    Raises InputError for a key that no example has, and for an example whose path cannot be had.
    """
    examples: Examples = {}
    for name, text in files.items():
        for path in scenarios[name].every_path.values():
            if why := find_inexpressible(path, scenarios[name].horizon):
                raise InputError(f"{name}: path: {why}")
        _collect(scenarios[name], yaml.safe_load(text), examples)
    lines = [_HEAD + "\n".join(_values())]
    for model in _models(Scenario):
        lines += ["", f"## {model.__name__}", "", " ".join((model.__doc__ or "").split()), "", *_table(model, examples)]
    lines += ["", "## Examples", "", "Whole files; each is read, checked and compiled whenever this page is made."]
    for name, text in files.items():
        lines += ["", f"### {name}", "", "```yaml", text.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _values() -> Iterator[str]:
    yield table_row(["what", "written as", "for example"])
    yield table_row(["---"] * 3)
    samples = {Rate: "2.64 Mbit/s", Duration: "325 ms", Size: "16 MiB", Percentage: "0.1 %", Cost: "5 us"}
    for kind in _QUANTITIES:
        yield table_row([kind.noun, f"a number and one of {', '.join(kind.units)}", f"`{samples[kind]}`"])
    yield table_row(["queue size", "bytes, packets, time at the link's rate, or bandwidth-delay products", "`1 BDP`"])
    yield table_row(
        ["parameter", "NAME: value, with the unit of [its parameter](../images/PARAMETERS.md)", "`10`, `bbr`"]
    )
    yield ""
    yield (
        "MB are 10⁶ bytes, MiB 2²⁰. Rates count frames with their Ethernet header. `vary` and `--vary` may name:\n\n"
        "* a parameter of endpoints: `client.X`, `server.X`, or `X` alone for both. The parameters are "
        f"{_words(sorted(PARAMETERS))}.\n"
        "* a property of the path: `path.DIRECTION.PROPERTY`, or `paths.NAME.DIRECTION.PROPERTY` of one of several. "
        f"The directions are {_words(DIRECTIONS)}; the properties {_words(PROPERTIES)}.\n"
        "* a key of a property: `path.forward.queue.target`, `path.forward.jitter.deviation`, "
        "`path.forward.reorder.share`.\n"
        "* a key of one flow: `flow1.client`, `flow1.server`, `flow1.access_delay`, `flow1.server.X`.\n"
        "* a cost of computing: `client.cpu.X`, `server.cpu.X`, or `cpu.X` for both. The costs are "
        f"{_words(CPU_COSTS)}.\n\n"
        "`draw` may name those that are one number with a unit."
    )


def _words(names: Iterable[str]) -> str:
    """'`a`, `b`'."""
    return ", ".join(f"`{name}`" for name in names)


def _table(model: type[BaseModel], examples: Examples) -> Iterator[str]:
    yield table_row(["key", "takes", "default", "example", "meaning"])
    yield table_row(["---"] * 5)
    short = model.model_json_schema(by_alias=True).get("properties", {})
    for name, field in model.model_fields.items():
        key = field.alias or name
        if (model.__name__, key) not in examples and not _filled_in(model, key):
            raise InputError(
                f"no example has the key {key} of {model.__name__}", "write it into a file of docs/scenarios"
            )
        forms = [form["description"] for form in short.get(key, {}).get("oneOf", ()) if form.get("type") == "string"]
        takes = " ".join([_takes(field.annotation, _bounds(field.metadata)), *(f"(or {form})" for form in forms)])
        example = examples.get((model.__name__, key), "")
        example = example if example in ("", _BELOW) else f"`{escape_cell(example)}`"
        meaning = " ".join((field.description or "").split())
        yield table_row([f"`{key}`", escape_cell(takes), _default(field), example, escape_cell(meaning)])


def _filled_in(model: type[BaseModel], key: str) -> bool:
    """Whether a file leaves a key out: a scenario has the name of its file, and a trace or an archive says the rest."""
    return (model is Scenario and key == "name") or (
        model in (Page, Trace) and model.model_fields[key].json_schema_extra == READ
    )


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "**required**"
    if field.default is None or field.default in ((), {}, ""):
        return "none"
    return f"`{escape_cell(_written(field.default))}`"


def _written(value: object) -> str:
    """A value as a scenario has it."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    elif isinstance(value, tuple):
        value = [str(item) for item in value]
    elif isinstance(value, Quantity | QueueSize):
        return str(value)
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000)
    return text.removesuffix("...\n").strip()


def _collect(part: BaseModel, data: object, examples: Examples) -> None:
    """Take the keys of one part of an example, as they were read and as they were written, and of what is in it."""
    if not isinstance(data, dict):
        return
    if isinstance(part, Link) and part.traced is not None:
        # What a link follows is written in place of its values.
        data = {**data, "traced": {name: data[name] for name, _ in part.traced.all}}
    for name, field in type(part).model_fields.items():
        key = field.alias or name
        if key not in data:
            continue
        text = _written(data[key])
        known = examples.get((type(part).__name__, key))
        # The first that is brief.
        if len(text) <= _LONGEST and (known is None or known == _BELOW):
            examples[type(part).__name__, key] = text
        elif known is None:
            examples[type(part).__name__, key] = _BELOW
        value = getattr(part, name)
        written = data[key]
        if key == "flows" and isinstance(part, Scenario):
            # An entry with a count stands for several flows.
            written = [entry for entry in written for _ in range(entry.get("count", 1))]
        for inner, own in _parts(value, written):
            if isinstance(inner, BaseModel):
                _collect(inner, own, examples)


def _parts(value: object, written: Any) -> Iterator[tuple[object, object]]:
    """The parts of a value, of a list or under names of their own, as they were read and as they were written."""
    if isinstance(value, tuple):
        # A short form, as a time for a range of times, has no parts.
        yield from zip(value, written, strict=True) if isinstance(written, list) else ()
    elif isinstance(value, dict):
        yield from ((part, written[name]) for name, part in value.items() if name in written)
    else:
        yield value, written


def _models(root: type[BaseModel]) -> list[type[BaseModel]]:
    """A model and those in it, each once, in the order in which they are met."""
    models = [root]
    for model in models:
        inner = (inner_model for field in model.model_fields.values() for inner_model in _inside(field.annotation))
        models += [inner_model for inner_model in dict.fromkeys(inner) if inner_model not in models]
    return models


def _inside(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _inside(argument)]


def _bounds(metadata: Sequence[Any]) -> str:
    """Bounds of a number: 'from 1280 to 1500'."""
    every = [inner for entry in metadata for inner in (entry.metadata if isinstance(entry, FieldInfo) else (entry,))]
    words = [
        f"{word} {getattr(bound, name):g}" for kind, name, word in _BOUNDS for bound in every if isinstance(bound, kind)
    ]
    return " ".join(words)


def _takes(annotation: Any, bounds: str = "") -> str:
    """What a key takes, in words, with links to what has keys of its own."""
    if annotation in (WrittenValue, WrittenNumber):
        return "value"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _takes(arguments[0], _bounds(arguments[1:]))
    if origin in (Union, types.UnionType):
        kinds = dict.fromkeys(_takes(argument, bounds) for argument in arguments if argument is not type(None))
        return " or ".join(kinds)
    if origin is Literal:
        return " or ".join(f"`{word}`" for word in arguments)
    if origin is tuple:
        many = arguments[-1] is Ellipsis
        return f"list of {_takes(arguments[0])}" if many else f"two of {_takes(arguments[0])}"
    if origin is dict:
        return f"NAME: {_takes(arguments[1])}"
    return _named(annotation, bounds)


def _named(kind: Any, bounds: str) -> str:
    if issubclass(kind, BaseModel):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    if issubclass(kind, Quantity):
        return str(kind.noun)
    words = {QueueSize: "queue size", bool: "`true` or `false`", int: "whole number", float: "number", str: "text"}
    return f"{words[kind]} {bounds}".strip()
