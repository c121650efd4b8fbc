"""Charts that are copied quickly are those that Altair makes."""

from __future__ import annotations

import json
from typing import Any

import altair as alt
import polars as pl
import pytest

from harness.report.plots.parts import Layers, Marks

FRAME = pl.DataFrame({"t": [0.0, 1.0], "value": [1.0, 2.0], "flow": ["a", "b"]})


def _chart(marks: type[alt.Chart], layers: type[alt.LayerChart]) -> Any:
    """Two panels, one of them of layers within layers, with a parameter that all lines share."""
    picked = alt.selection_point(name="picked", fields=["flow"], bind="legend")
    line = marks(FRAME).mark_line().encode(x="t:Q", y="value:Q", color=alt.Color("flow:N")).add_params(picked)
    below = layers(layer=[marks(FRAME[:1]).mark_rule().encode(y="value:Q"), marks(FRAME[1:]).mark_text()])
    panel = layers(layer=[below, line])
    panel.width = 300
    return alt.vconcat(panel, alt.hconcat(line, layers(layer=[line]))).to_dict()


@pytest.mark.filterwarnings("ignore:Automatically deduplicated")
def test_they_are_the_same_to_the_last_letter() -> None:
    assert json.dumps(_chart(Marks, Layers)) == json.dumps(_chart(alt.Chart, alt.LayerChart))


@pytest.mark.parametrize("deep", [True, False, ["encoding"]])
def test_a_copy_is_changed_alone(deep: Any) -> None:
    original = Marks(FRAME).mark_line().encode(x="t:Q", color=alt.Color("flow:N", scale=alt.Scale(range=["red"])))
    duplicate = original.copy(deep=deep)
    assert type(duplicate) is Marks and duplicate.data is original.data
    duplicate.width = 5
    assert original.width is alt.Undefined
    if deep is True:
        duplicate.encoding.color["scale"]["range"].append("blue")
        assert original.encoding.color["scale"]["range"] == ["red"]
