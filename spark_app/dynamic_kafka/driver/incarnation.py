"""A driver's place among the drivers that have started on one checkpoint: the newest one counts.

Driver; `driver.replay` owns it. Spark's log accepts one writer of a batch, but has no amendments. A driver that hung
while another one was started in its place could leave out other ranges than that one, or plan without its amendments.
So each driver claims a number in the state location when it starts, and refuses to go on once it finds a newer one. It
looks before and after it writes an amendment, and before Spark gets a new document.

A driver first claims its number, then reads the amendments, then records those that it found. A replaced driver writes
its amendment first, then looks for newer drivers. So one of the two sees the other, whatever the order: the newer
driver obeys the amendment, or the older one refuses to run the batch. An amendment that the newest record does not
name, of a driver before it, is void (`StateLocation.amendments`).

If a driver dies between its claim and its record, it has done nothing: the record of the driver before it stays in
force until the next one.
"""

from __future__ import annotations

import socket
import time
import uuid
from dataclasses import replace

from dynamic_kafka.driver.state_binding import bound_state
from dynamic_kafka.driver.state_purge import purge
from dynamic_kafka.driver.state_store import StateLocation, number_of
from dynamic_kafka.errors import DriverReplacedError
from dynamic_kafka.planning.amendments import Amendment
from dynamic_kafka.planning.progress import OffsetDocument


class Incarnation:
    """One process as a driver of one query, and its writes to the query's state. Without a state, it does nothing.

    Attributes:
        name: the name of its claim, `<number>-<mark>`; empty before the claim. A process that planned the query's first
            batch has none, and every claim is newer.
        state_id: the id of the state folder, for the next document; empty without one.
    """

    def __init__(self, state: StateLocation | None) -> None:
        self._state = state
        self._is_bound = True
        self.name = self.state_id = ""

    def load(self, document: OffsetDocument) -> list[Amendment]:
        """Return the query's amendments from a checkpoint's last document on. Writes nothing.

        Raises:
            StateMismatchError: the folder does not hold the query's state.
        """
        self.state_id, self._is_bound = bound_state(self._state, document)
        if self._state is None or not document.query:
            return []
        return self._state.amendments(document.query, since=document.number)

    def begin(self, document: OffsetDocument) -> list[Amendment]:
        """Become the newest driver of the query, and return the amendments that this driver obeys.

        Raises:
            DriverReplacedError: another driver has claimed a newer number at the same time.
            OptionError, DynamicKafkaError: claims, or reports of executors, cannot be written.
        """
        if self._state is None or not document.query:
            return []
        # Before the claim: a start that fails must not replace the driver that runs.
        self._state.check_writable(document.query)
        newest = self._state.drivers(document.query)[-1:]
        number = number_of(newest[0]) + 1 if newest else 1
        self.name = f"{number:012d}-{uuid.uuid4().hex[:16]}"
        claim = {"version": 1, "host": socket.gethostname(), "startedMs": time.time_ns() // 1_000_000}
        self._state.write(f"{document.query}/drivers/{self.name}.json", claim)
        self.check(document.query)
        found = self.load(document)
        self._state.save_record(document.query, self.name, document.number, found)
        purge(self._state, document, self.name)
        return found

    def check(self, query: str) -> None:
        """Check that no newer driver has claimed a number.

        Raises:
            DriverReplacedError: one has.
        """
        newest = self._state.drivers(query)[-1:] if self._state is not None else []
        if self._state is None or not newest or newest[0] <= self.name:
            return
        folder, name = f"{query}/drivers", f"{newest[0]}.json"
        host = self._state.read_folder(folder, [name]).get(name, {}).get("host", "unknown")
        raise DriverReplacedError(
            f"another driver has started on this checkpoint since (host {host}, query {query}): this one stops, so that"
            " no two drivers decide about one batch. All committed batches are intact. If the other driver was started"
            " by mistake, stop it, and start this one again"
        )

    def before_document(self, document: OffsetDocument) -> None:
        """Bind the state folder, and check that this driver may still plan. Spark gets the document after it.

        Raises:
            DriverReplacedError: a newer driver may have left out ranges of the batch before.
        """
        if self._state is not None and not self._is_bound:
            self._state.bind(document.query, document.state)
            self._is_bound = True
        self.check(document.query)

    def save(self, amendment: Amendment) -> None:
        """Make an amendment durable. Its batch may run only after this, and after one more `check`.

        A driver that has claimed its number meanwhile obeys the amendment only if it has seen it.

        Raises:
            DriverReplacedError: a newer driver decides about the batch.
        """
        assert self._state is not None
        self.check(amendment.query)
        self._state.save_amendment(replace(amendment, driver=self.name))
