"""Snapshots, written and read."""

from __future__ import annotations

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from agentmem.agent.trace import from_fields, pack, to_fields, unpack
from agentmem.base.errors import InvalidInput
from agentmem.prompt.snapshot import Snapshot
from tests.properties.snapshots import JSON, snapshots


@given(snapshots())
def test_a_snapshot_reads_back_as_it_was_written(snapshot: Snapshot) -> None:
    """N1 Snapshot round trip. A snapshot reads back equal from JSON and from its packed form."""
    written = json.loads(json.dumps(to_fields(snapshot), allow_nan=False))
    assert from_fields(written) == snapshot
    packed, shared = pack(snapshot)
    data = json.loads(json.dumps(packed.data, allow_nan=False))
    assert unpack(data, {text.id: text.data["text"] for text in shared}) == snapshot
    assert {looked.id for looked in snapshot.looked_at} <= set(packed.mentions)
    assert {text.id for text in shared} <= set(packed.mentions)


@given(st.dictionaries(st.sampled_from(tuple(Snapshot.__slots__)), JSON))
def test_damaged_snapshots_are_refused_by_name(fields: dict[str, object]) -> None:
    """N2 Snapshot totality. Whatever stands where a snapshot should be is read or refused with a typed error."""
    with suppress(InvalidInput):
        from_fields(fields)
