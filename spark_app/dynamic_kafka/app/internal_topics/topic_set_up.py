"""One set-up of the internal topics on their home cluster: observe, decide, make, remember. Driver and `init`.

If the process dies between two steps, the next set-up goes on: the record that one has begun is written before any
topic is made, and the result only when all are there. `setup_plan.py` has the decisions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dynamic_kafka.app.config.internal_topics import InternalTopic, InternalTopics
from dynamic_kafka.app.internal_topics.home import Home
from dynamic_kafka.app.internal_topics.memory import SetupMemory
from dynamic_kafka.app.internal_topics.parameters import InitParameters
from dynamic_kafka.app.internal_topics.setup_plan import (
    Remembered,
    SetupPlan,
    check_home,
    check_setup,
    plan_setup,
    refuse_deviations,
)
from dynamic_kafka.errors import ClusterError, ClusterUnreachableError, DynamicKafkaError
from dynamic_kafka.kafka.retries import PAUSE_S
from dynamic_kafka.kafka.topic_admin import FoundTopic, TopicAdmin, WantedTopic
from dynamic_kafka.wording import first_few

log = logging.getLogger(__name__)

SETTLE_S = 2.0
"""How long a set-up waits for topics that another one may just be making, before it reports some as missing."""


@dataclass(frozen=True)
class SetupResult:
    """The outcome of a set-up.

    Attributes:
        home, kafka_id: the home cluster and its `cluster.id`.
        plan: the decisions; with a dry run nothing of it was done.
        found: the topics as they are now.
    """

    home: str
    kafka_id: str | None
    plan: SetupPlan
    found: Mapping[str, FoundTopic]


class TopicSetUp:
    """One set-up.

    Args:
        deadline_s: seconds for the whole set-up; cleaning up after a failure gets as much again.
    """

    def __init__(self, home: Home, declared: InternalTopics, memory: SetupMemory, deadline_s: float) -> None:
        self._home, self._declared, self._memory = home, declared, memory
        self._deadline_s, self._until = deadline_s, time.monotonic() + deadline_s
        self._admin: TopicAdmin = home.admin(deadline_s)

    def close(self) -> None:
        """Close the client in the background."""
        self._admin.close_in_background()

    def make(self, parameters: InitParameters, *, dry_run: bool = False) -> SetupResult:
        """Make the topics that are missing, as the parameters allow.

        Raises:
            MissingInternalTopicError, MisconfiguredInternalTopicError: see `plan_setup`.
            IdentityError: another cluster than that of the last set-up answers.
            ClusterError: the home does not answer in time, or refuses. All that was made is removed again.
        """
        kafka_id, remembered = self._identify()
        existing, plan = self._planned(remembered, parameters)
        result = SetupResult(self._home.name, kafka_id, plan, existing)
        if dry_run:
            self._validate(plan.create)
            return result
        if plan.create:
            self._validate(plan.create)
            begun = frozenset(topic.name for topic in plan.create)
            self._memory.write(replace(remembered, begun=begun))
            result = replace(result, found=self._create(plan.create, remembered))
        self._memory.write(Remembered(remembered.kafka_id, _ids(result.found)))
        return result

    def check(self) -> SetupResult:
        """Check that all topics are there, and remember the ids of topics that are new to the memory.

        Raises:
            as `check_setup` and `make`.
        """
        kafka_id, remembered = self._identify()
        existing = self._found()
        check_setup(self._declared.topics, existing, remembered)
        self._memory.write(Remembered(remembered.kafka_id, _ids(existing)))
        return SetupResult(self._home.name, kafka_id, SetupPlan(), existing)

    def _identify(self) -> tuple[str | None, Remembered]:
        """Return the home's `cluster.id`, and the record of the last set-up on this cluster."""
        kafka_id = self._call().kafka_id(self._declared.topics[0].name)
        remembered = self._memory.newest()
        check_home(self._home.name, kafka_id, remembered, self._declared.kafka_id)
        if kafka_id is None:
            log.warning("cluster %s reports no cluster.id: nothing shows that it is still the same", self._home.name)
            return None, remembered
        moved = remembered.kafka_id not in (None, kafka_id)
        return kafka_id, replace(Remembered() if moved else remembered, kafka_id=kafka_id)

    def _planned(
        self, remembered: Remembered, parameters: InitParameters
    ) -> tuple[Mapping[str, FoundTopic], SetupPlan]:
        """Return the topics that exist, and the plan. Some may be there because another set-up is making them."""
        settled = min(time.monotonic() + SETTLE_S, self._until)
        while True:
            existing = self._found()
            complete = not existing or len(existing) == len(self._declared.topics)
            if complete or time.monotonic() > settled:
                return existing, plan_setup(self._declared.topics, existing, remembered, parameters)
            time.sleep(PAUSE_S)

    def _validate(self, topics: Sequence[InternalTopic]) -> None:
        """Let the controller check the request before anything is made. Raises ClusterError."""
        if not topics:
            return
        checked = self._call().create([_wanted(topic) for topic in topics], validate_only=True)
        self._raise_for(checked.refused, checked.unclear, "nothing was made")

    def _create(self, topics: Sequence[InternalTopic], remembered: Remembered) -> Mapping[str, FoundTopic]:
        """Make topics and return all internal topics; after a failure remove those that this call made."""
        creation = self._call().create([_wanted(topic) for topic in topics])
        try:
            self._raise_for(creation.refused, creation.unclear, "")
            existing = self._wait_for_all()
            # Another set-up, or another program, may have made some of them, differently.
            refuse_deviations(self._declared.topics, existing)
        except DynamicKafkaError as error:
            raise self._cleaned_up(error, creation.made, creation.unclear, remembered) from None
        return existing

    def _wait_for_all(self) -> Mapping[str, FoundTopic]:
        names = {topic.name for topic in self._declared.topics}
        while True:
            existing = self._found()
            if existing.keys() == names:
                return existing
            if time.monotonic() + PAUSE_S > self._until:
                text = f"the topics {first_few(sorted(names - existing.keys()))} were made, but are not listed"
                raise ClusterUnreachableError(self._home.name, text)
            time.sleep(PAUSE_S)

    def _cleaned_up(
        self,
        error: DynamicKafkaError,
        made: Collection[str],
        unclear: Collection[str],
        remembered: Remembered,
    ) -> DynamicKafkaError:
        """Remove what this set-up made, and return the error with what became of it.

        A topic for whose request no answer came may be another set-up's. It stays, and the record that a set-up has
        begun stays, too, so that the next one completes it.
        """
        self._until = time.monotonic() + self._deadline_s
        failures = dict.fromkeys(unclear, "no answer came, so it may have been made")
        if made:
            failures |= {name: str(failure) for name, failure in self._call().delete(sorted(made)).items()}
        if not failures:
            self._memory.write(remembered)
            left = f"; what was made is removed again: {first_few(sorted(made))}" if made else ""
        else:
            stays = ", ".join(f"{name!r} ({why})" for name, why in sorted(failures.items()))
            left = f"; left are {stays}: the next set-up goes on with them"
        if isinstance(error, ClusterError):
            return type(error)(error.cluster, f"{error.message}{left}")
        return type(error)(f"{error}{left}")

    def _raise_for(self, refused: Mapping[str, ClusterError], unclear: Collection[str], left: str) -> None:
        """Raise the refusals of one request in one error. Raises ClusterError."""
        tail = f"; {left}" if left else ""
        if refused:
            raise ClusterError(self._home.name, "; ".join(error.message for _, error in sorted(refused.items())) + tail)
        if unclear:
            text = f"no answer to the request to make the topics {first_few(sorted(unclear))}"
            raise ClusterUnreachableError(self._home.name, text + tail)

    def _found(self) -> Mapping[str, FoundTopic]:
        return self._call().found([topic.name for topic in self._declared.topics])

    def _call(self) -> TopicAdmin:
        """Return the client, whose next call ends with the set-up's own deadline."""
        self._admin.deadline_s = max(0.5, self._until - time.monotonic())
        return self._admin


def _wanted(topic: InternalTopic) -> WantedTopic:
    return WantedTopic(topic.name, topic.partitions, topic.replication_factor, topic.made_with)


def _ids(existing: Mapping[str, FoundTopic]) -> dict[str, str | None]:
    return {name: topic.topic_id for name, topic in existing.items()}
