"""What a look at one subscription sees, and the writes that it leads to: what `decide` takes and gives. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from kafkastream_operator.core.application import Application, Patch, Refresh
from kafkastream_operator.core.catalog import Catalog
from kafkastream_operator.core.document import Document
from kafkastream_operator.core.drain_evidence import Driver
from kafkastream_operator.core.rollout import Timing
from kafkastream_operator.models.subscription import SubscriptionSpec, SubscriptionStatus


@dataclass(frozen=True)
class ConfigMap:
    """The subscription's ConfigMap as it is.

    Attributes:
        ours: it has the operator's label for this subscription: another one is never overwritten.
        document: what it says; None if that was edited by hand.
        drifted: its keys are not exactly what the document packs to.
    """

    name: str
    resource_version: str
    ours: bool
    document: Document | None
    drifted: bool = False


@dataclass(frozen=True)
class View:
    """Everything that is seen of one subscription at a moment.

    Attributes:
        released: what a person lets go, by the subscription's annotation (`core/release.py`).
        rival: an older subscription of the same application, which is served instead.
        timing: how long things may take.
        made: it came of annotations on the application, and goes after its orphan retention.
        fresh_lineage: for a document that has no predecessor.
    """

    name: str
    uid: str
    generation: int
    spec: SubscriptionSpec
    status: SubscriptionStatus
    catalog: Catalog
    config_map: ConfigMap | None
    application: Application | None
    driver: Driver | None
    now: datetime
    fresh_lineage: str
    released: frozenset[str] = frozenset()
    rival: str = ""
    made: bool = False
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True)
class Plan:
    """The writes that follow, in this order; None: not needed.

    Attributes:
        document: for the ConfigMap `config_map`, whose resourceVersion must still be `expected` ("" : not there).
        status, after: before and after the effect.
        delete: the subscription and its document have outlived their application.
        events: (reason, message) worth an Event.
        again: when to look again, if nothing happens before.
    """

    config_map: str
    document: Document | None = None
    expected: str = ""
    status: SubscriptionStatus | None = None
    effect: Patch | Refresh | None = None
    after: SubscriptionStatus | None = None
    delete: bool = False
    events: tuple[tuple[str, str], ...] = ()
    again: datetime | None = None
