"""A driver's place among the drivers that have started on one checkpoint: the newest one counts.

Driver; `driver.replay` owns it. Spark's log accepts one writer of a batch, but has no amendments. A driver that hung
while another one was started in its place could leave out other ranges than that one, or plan without its amendments.
So each driver claims a number in the state location when it starts. It refuses to go on once it finds a newer claim, or
its own claim gone: the next driver may have started in a folder that was moved. It looks before and after it writes an
amendment, and before Spark gets a new document. A query's first driver claims its number before the first document.

A driver first claims its number, then reads the amendments, then records those that it found. A replaced driver writes
its amendment first, then looks for newer drivers. So one of the two sees the other, whatever the order: the newer
driver obeys the amendment, or the older one refuses to run the batch. An amendment that the newest record does not
name, of a driver before it, is void (`StateLocation.amendments`). Executors do the same with stop records: an attempt
of a replaced driver reports, then looks for newer drivers, and fails if there is one (`BatchReports.stop_record`).

If a driver dies between its claim and its record, it has done nothing: the record of the driver before it stays in
force until the next one.
"""

from __future__ import annotations

import logging
import socket
import time
import uuid
from dataclasses import replace

from dynamic_kafka.errors import DriverReplacedError, DynamicKafkaError
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.state.binding import bound_state
from dynamic_kafka.state.purge import purge
from dynamic_kafka.state.store import StateLocation, number_of

AGAIN_AFTER_S = 1.0
"""The pause before the second look for newer drivers, if the first one failed."""

log = logging.getLogger(__name__)


class Incarnation:
    """One process as a driver of one query, and its writes to the query's state. Without a state, it does nothing.

    Attributes:
        name: the name of its claim, `<number>-<mark>`; empty before the claim.
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
        self._claim(self._state, document.query)
        self.check(document.query)
        amendments = self.load(document)
        self._state.save_record(document, self.name, amendments, self._state.stop_records(document))
        purge(self._state, document, self.name)
        return amendments

    def _claim(self, state: StateLocation, query: str) -> None:
        # Before the claim: a start that fails must not replace the driver that runs.
        state.check_writable(query)
        newest = state.drivers(query)[-1:]
        number = number_of(newest[0]) + 1 if newest else 1
        self.name = f"{number:012d}-{uuid.uuid4().hex[:16]}"
        claim = {"version": 1, "host": socket.gethostname(), "startedMs": time.time_ns() // 1_000_000}
        state.write(f"{query}/drivers/{self.name}.json", claim)

    def check(self, query: str) -> None:
        """Check that this driver's claim is there, and no newer one.

        Raises:
            DriverReplacedError: another driver has claimed a newer number, or may have done so in a moved folder.
        """
        if self._state is None:
            return
        try:
            drivers = self._state.drivers(query)
        except DynamicKafkaError as error:  # each batch looks, so a mount that fails once must not end the query
            log.warning("%s; looking once more in %g s", error, AGAIN_AFTER_S)
            time.sleep(AGAIN_AFTER_S)
            drivers = self._state.drivers(query)
        folder, newest = f"{query}/drivers", drivers[-1] if drivers else ""
        if newest > self.name:
            name = f"{newest}.json"
            host = self._state.read_folder(folder, [name]).get(name, {}).get("host", "unknown")
            raise DriverReplacedError(
                f"another driver has started on this checkpoint since (host {host}, query {query}): this one stops. All"
                " committed batches are intact. If the other driver was started by mistake, stop it, and start this"
                " one again"
            )
        if self.name and self.name not in drivers:
            raise DriverReplacedError(
                f"{self._state.uri}/{folder}/{self.name}.json, the claim of this driver, is gone: the stateLocation was"
                " moved, emptied or restored. This driver stops. All committed batches are intact. Name the state's"
                " folder in stateLocation, and start again"
            )

    def before_document(self, document: OffsetDocument) -> None:
        """Bind the state folder, and check that this driver may still plan. Spark gets the document after it.

        The driver of a query without a document claims its number only here: the claim is in the folder of the query.

        Raises:
            DriverReplacedError: a newer driver may have left out ranges of the batch before.
        """
        if self._state is not None and not self._is_bound:
            self._state.bind(document.query, document.state)
            self._is_bound = True
        if self._state is not None and not self.name:
            self._claim(self._state, document.query)
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
