"""The verdicts about topics that were deleted or re-created, and their acceptances, as files of the `stateLocation`.

Driver, executors and tools. `<query>/integrity` has a file for each, named by its content: the same verdict is the same
file, whoever writes it. A verdict ends every later start until a user has accepted the change
(`planning.sameness.integrity`). One that was wrong is withdrawn. If the topic changes later in the same way, the same
verdict is recorded again.

A query has no id before its first document. The verdict of such a start, about a topic that metadata pin, is in
`first-start/integrity`. It counts for all first starts at this `stateLocation`: an id belongs to one topic.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from dynamic_kafka.planning.sameness.integrity import TopicChange
from dynamic_kafka.state.folder import StateFolder

FOLDER = "integrity"
FIRST_START = "first-start"
"""The folder in place of a query's, before its first document."""
Kind = Literal["verdict", "accepted", "withdrawn"]


def save_change(state: StateFolder, query: str, kind: Kind, change: TopicChange) -> str:
    """Make a verdict, its acceptance or its withdrawal durable, and return its path.

    Args:
        query: empty before the query's first document; so in all functions here.

    Raises:
        OptionError, DynamicKafkaError: as `StateFolder`.
    """
    path = f"{_folder(query)}/{name_of(kind, change)}"
    state.write(path, change.to_wire())
    return path


def saved_changes(state: StateFolder, query: str, kind: Kind) -> dict[str, TopicChange]:
    """Return the verdicts or the acceptances of a query, by the name of their file.

    Raises:
        OffsetDocumentError: a file is damaged.
        OptionError, DynamicKafkaError: as `StateFolder`.
    """
    folder, changes = _folder(query), {}
    names = [file.name for file in state.list_folder(folder) if file.name.startswith(f"{kind}-")]
    for name, wire in state.read_folder(folder, names).items() if names else ():
        with state.explain_damage(f"{folder}/{name}"):
            changes[name] = TopicChange.from_wire(wire)
    return changes


def withdraw_verdict(state: StateFolder, query: str, change: TopicChange) -> None:
    """Take a verdict back that was wrong, and record that. It accepts nothing. Raises as `StateFolder`."""
    save_change(state, query, "withdrawn", change)
    state.delete(f"{_folder(query)}/{name_of('verdict', change)}")


def _folder(query: str) -> str:
    return f"{query or FIRST_START}/{FOLDER}"


def name_of(kind: Kind, change: TopicChange) -> str:
    """Return the name of the file."""
    mark = hashlib.sha256(json.dumps([*change.key, change.pinned]).encode()).hexdigest()[:16]
    return f"{kind}-{mark}.json"
