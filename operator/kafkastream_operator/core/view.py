"""The input and output of `core.decide`: the view of one subscription, and the plan of its writes. Pure values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from kafkastream_operator.core.application import FAILED, Application, FailedDriver, Patch, Refresh
from kafkastream_operator.core.catalog import Catalog
from kafkastream_operator.core.document import Document
from kafkastream_operator.core.drain_evidence import Driver
from kafkastream_operator.core.rollout.budget import Turn
from kafkastream_operator.core.rollout.step import Timing
from kafkastream_operator.core.topic_integrity import TopicVerdict
from kafkastream_operator.models.subscription import SubscriptionSpec, SubscriptionStatus


@dataclass(frozen=True)
class ConfigMap:
    """The subscription's ConfigMap, as the cluster has it.

    Attributes:
        ours: it has the operator's label for this subscription. The operator never overwrites another ConfigMap.
        document: its document; None if there is none, or somebody has edited it.
        drifted: its labels, its keys or the text of its document differ from what the operator writes.
    """

    resource_version: str
    ours: bool
    document: Document | None
    drifted: bool = False


@dataclass(frozen=True)
class View:
    """Everything that the operator sees of one subscription at one moment.

    Attributes:
        fresh_lineage: the lineage for a document that has no predecessor.
        released: the releases in the subscription's annotation (`core.release`).
        retry: the value of the subscription's annotation `kafkastream.dev/retry`.
        rival: the name of an older subscription of the same application, which the operator serves instead; "" if none.
        annotated: the subscription was made from annotations of the application, and is deleted after
            `orphanRetention`.
        failed_driver: the last driver of the application that has failed since this operator runs.
        turn: the place in the order of all restarts, if it has begun one; None if no budget holds for it.
    """

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
    retry: str = ""
    rival: str = ""
    annotated: bool = False
    failed_driver: FailedDriver | None = None
    turn: Turn | None = None
    timing: Timing = field(default_factory=Timing)

    @property
    def asks_for_retry(self) -> bool:
        """Whether a user asks anew for the roll-out that the operator has given up."""
        rollout = self.status.rollout
        given_up = rollout is not None and rollout.phase == "Failed" and self.retry.partition("@")[0] == rollout.token
        return given_up and self.retry != self.status.retried

    @property
    def verdict(self) -> TopicVerdict | None:
        """Why the application has ended for good, if a topic was deleted or re-created."""
        if self.application is None or self.application.life not in FAILED:
            return None
        return self.application.verdict or (self.driver.verdict if self.driver is not None else None)


@dataclass(frozen=True)
class Plan:
    """The writes for one subscription, in their order. None means that a write is not needed.

    Attributes:
        document: for the ConfigMap `config_map`.
        expected: the resourceVersion that the ConfigMap must still have; "" if it must not exist.
        status: written before the effect.
        after: the status to write after the effect.
        delete: delete the subscription and its document, because the orphan's retention is over.
        events: (reason, message) of each Event.
        again: when to reconcile again, if nothing happens before.
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
