"""The key of a cell: a hash of the lab it amounts to, who plays in it, and what makes its runs. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from harness.outcome import Cell
from harness.planning.endpoint_config import UnsupportedError
from harness.scenario.parameters import ROLES
from harness.store.identity.equivalences import Ledger, cell_identities
from harness.topology import build_lab, digest_form


def cell_key(cell: Cell, ledger: Ledger) -> str:
    """16 hexadecimal digits of BLAKE2b over what a cell's runs depend on.

    That is the lab it amounts to, who plays in it, the identities of the images, of the simulator and of the engine,
    and the parameters that were asked for, which a run must show. No titles, objectives or other words.
    """
    identities = cell_identities(cell, ledger)
    players = [cell.implementation(role, flow).name for role in ROLES for flow in range(len(cell.scenario.flows))]
    return _digest(
        {
            "lab": cell.compiled,
            "players": [[name, identities["image", name]] for name in players],
            "sim": identities["simulator", "sim"],
            "engine": [cell.engine, identities["engine", cell.engine]],
            "asked": cell.parameters,
        }
    )


def compiled(cell: Cell) -> str:
    """Digest of the lab that a cell amounts to: path program, hosts, flows, what each endpoint is told, seed.

    Where an implementation does not support what is asked there is no lab. The digest is then that of what was asked,
    and of the reason.
    """
    drawn = cell.scenario.model_dump(mode="json", include={"draw"})
    try:
        # What is drawn differs between repetitions.
        content = digest_form(build_lab(cell, 0)) | drawn
    except UnsupportedError as error:
        asked = cell.scenario.model_dump(
            mode="json", by_alias=True, include={"path_", "paths", "flows", "ip_version", "protocol", "testcase"}
        )
        who = [cell.client.name, cell.server.name, error.role, error.reason, error.detail]
        content = {"unsupported": who, "asked": asked, "parameters": cell.parameters} | drawn
    return _digest(used(content))


def used(content: Any) -> Any:
    """A document without keys that say nothing: null, false, an empty text, list or mapping.

    A key that is added to the format later says nothing in the cells that were stored before, so that it changes
    none of their digests.
    """
    if isinstance(content, Mapping):
        filled = {key: used(value) for key, value in content.items()}
        return {key: value for key, value in filled.items() if value not in (None, "", [], {}) and value is not False}
    return [used(item) for item in content] if isinstance(content, list | tuple) else content


def _digest(content: Mapping[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def keyed(cell: Cell, ledger: Ledger | None = None) -> Cell:
    """A cell with the digest of its lab, and its key. Without a ledger every digest is an identity of its own."""
    cell = cell.model_copy(update={"compiled": compiled(cell)})
    return cell.model_copy(update={"key": cell_key(cell, ledger or Ledger())})
