"""The tie between a query's offset documents and its state folder. Driver and tools.

The folder holds an id, and every document names the id of the folder that its query has used. Otherwise a query whose
`stateLocation` was moved, emptied or dropped would not notice: it would have no amendments, and would never read the
ranges that its last batch left out. A folder that is moved or copied keeps its id.
"""

from __future__ import annotations

import uuid

from dynamic_kafka.errors import OffsetDocumentError, StateMismatchError
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.wording import tool_command


def bound_state(state: StateLocation | None, document: OffsetDocument) -> tuple[str, bool]:
    """Return the id of the state that the next document names, and whether the folder holds it already.

    The id is empty without a state location. It is new for a query that has not used one yet.

    Raises:
        StateMismatchError: the query has used another state than this folder holds.
    """
    if state is None and not document.state:
        return "", True
    state_ids = state.state_ids(document.query) if state is not None and document.query else {}
    if not document.state:
        return (min(state_ids), True) if state_ids else (uuid.uuid4().hex, False)
    if document.state in state_ids:
        return document.state, True
    replacing = [state_id for state_id, lost in state_ids.items() if lost == document.state]
    if replacing:
        return min(replacing), True
    if state is None:
        wrong = "stateLocation is not set, but"
    else:
        held = "another state" if state_ids else "no state"
        try:
            state.read_folder(f"{document.query}/state")
        except OffsetDocumentError as damage:
            held += f" ({damage})"
        wrong = f"stateLocation: {state.uri}/{document.query} holds {held}, but"
    raise StateMismatchError(
        f"{wrong} the query has used the state {document.state}. Set stateLocation to the"
        f" folder with {document.query}/state/{document.state}.json. If that is lost, run"
        f" {tool_command('accept', flag='--state')} (docs/how-to/state.md#keep-it-with-the-checkpoint)"
    )
