"""A plan is repeated when a cluster fails meanwhile: without it, or with newer metadata."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.errors import ClusterError
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.progress import OffsetDocument

WITHOUT_EAST = SimpleNamespace(answers={})
FIRST = SimpleNamespace(answers={"east": None}, without=lambda cluster: {"east": WITHOUT_EAST}[cluster])
NEWER = SimpleNamespace(answers={})


@pytest.mark.parametrize(("newer", "planned"), [(False, WITHOUT_EAST), (True, NEWER)])
def test_a_plan_goes_on_after_a_cluster_failed_meanwhile(
    newer: bool, planned: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"streamIds": "s", "metadataService": "static", "metadataDocument": "streams: []"}
    enumerator, observations = Enumerator(parse_options(given, mode="streaming")), [FIRST, NEWER]

    def plan(logged: OffsetDocument, observed: Any, unlimited: bool) -> Any:
        if observed is FIRST:
            raise ClusterError("east", "is gone")
        return observed

    monkeypatch.setattr(enumerator.observer, "observe", lambda *_, **__: observations.pop(0))
    monkeypatch.setattr(enumerator.observer, "note_failures", lambda *_: newer)
    monkeypatch.setattr(enumerator, "_plan_observed", plan)
    assert enumerator._plan(OffsetDocument(), False) is planned
