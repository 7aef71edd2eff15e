"""The memory of set-ups, in the state location: the home's `cluster.id`, and the ids of its internal topics.

Driver and the command `init`. Each record is a file of its own below `<state location>/internal-topics/<application>`,
and the newest counts. Two set-ups at once write two files. A record is written before the step that needs it: one with
`begun` before topics are made, one without it when all are there.
"""

from __future__ import annotations

import uuid

from dynamic_kafka.app.internal_topics.setup_plan import Remembered
from dynamic_kafka.state.folder import StateFolder
from dynamic_kafka.state.store import number_of

FOLDER = "internal-topics"


class SetupMemory:
    """The records of one application.

    Args:
        uri: the state location.

    Raises:
        OptionError, DynamicKafkaError: as `StateFolder`.
    """

    def __init__(self, uri: str, application: str) -> None:
        self._state, self._folder = StateFolder(uri), f"{FOLDER}/{application}"

    @property
    def where(self) -> str:
        """The folder of the records, for messages."""
        return f"{self._state.uri}/{self._folder}"

    def newest(self) -> Remembered:
        """Return the newest record. Raises OffsetDocumentError if it is damaged."""
        names = [file.name for file in self._state.list_folder(self._folder)][-1:]
        for name, wire in self._state.read_folder(self._folder, names).items():
            with self._state.explain_damage(f"{self._folder}/{name}"):
                if wire["version"] != 1:
                    raise ValueError(f"version {wire['version']!r} is newer than this release")
                ids = {str(topic): None if raw_id is None else str(raw_id) for topic, raw_id in wire["ids"].items()}
                kafka_id = wire["kafkaId"]
                return Remembered(None if kafka_id is None else str(kafka_id), ids, frozenset(map(str, wire["begun"])))
        return Remembered()

    def write(self, record: Remembered) -> None:
        """Make a record the newest, and delete all older ones. A record that is the newest already is not written."""
        older = [file.name for file in self._state.list_folder(self._folder)]
        if older and self.newest() == record:
            return
        number = max(map(number_of, older), default=0) + 1
        content = {
            "version": 1,
            "kafkaId": record.kafka_id,
            "ids": dict(record.ids),
            "begun": sorted(record.begun),
        }
        self._state.write(f"{self._folder}/{number:012d}-{uuid.uuid4().hex[:8]}.json", content)
        for name in older:
            self._state.delete(f"{self._folder}/{name}")
