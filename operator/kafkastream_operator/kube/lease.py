"""Let one operator serve at a time: it holds a Lease, or its process ends. `__main__` starts it; a thread renews it.

A thread ends the process in time, whatever the calls of the renewing thread wait for. An operator that was suspended
for longer than its lease sends no write when it resumes (`Api.may_write`). A request that was on its way when it was
suspended may still arrive, which is harmless, because every write carries a precondition.

Clocks are never compared. A lease has expired when a waiting operator has not seen it change for its duration, by its
own clock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.errors import ApiError, ConflictError, NotFoundError
from kafkastream_operator.kube.api import Api, Object, Resource

LEASES = Resource("coordination.k8s.io", "v1", "leases")
RENEW_SHARE = 1 / 5
"""The part of its duration after which the holder renews a lease."""
GIVE_UP_SHARE = 2 / 3
"""The part of its duration after which a holder that could not renew ends, before another operator can take it."""

log = logging.getLogger(__name__)


class Lease:
    """One Lease that this process holds or waits for.

    Args:
        identity: the name of this process as a holder; unique.
        duration_s: seconds without a renewal after which any operator may take the lease.
        on_loss: called once, from a thread of its own, when the lease is lost.
        clock: returns monotonic seconds.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        *,
        identity: str,
        duration_s: float,
        on_loss: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # A hanging call must not last longer than the lease.
        self._api, self._namespace, self._name = api.within(duration_s * RENEW_SHARE), namespace, name
        self._identity, self._duration_s, self._on_loss, self._clock = identity, duration_s, on_loss, clock
        self._seen: tuple[str, float] | None = None
        self._held: Object | None = None
        self._renewed = 0.0
        self._ended = threading.Event()

    def acquire(self) -> None:
        """Wait until this process holds the lease, and start the threads that renew it and notice its loss."""
        logged = ""
        while not self.try_once():
            holder = self._seen[0].split("/")[0] if self._seen else "?"
            if holder != logged:
                log.info("waiting for the lease %s/%s, which %s holds", self._namespace, self._name, holder)
                logged = holder
            self._ended.wait(self._duration_s * RENEW_SHARE)
        log.info("this operator holds the lease %s/%s", self._namespace, self._name)
        for work in (self._renew_regularly, self._end_in_time):
            threading.Thread(target=work, name="lease", daemon=True).start()

    def is_held(self) -> bool:
        """Return whether no other operator can have taken the lease yet."""
        return self._time_left_s() > 0

    def release(self) -> None:
        """Release the lease, so that the next operator need not wait for it to expire."""
        self._ended.set()
        if self._held is None:
            return
        try:
            body = {**self._held, "spec": {**self._held["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}}
            self._api.replace(LEASES, body)
        except ApiError as error:
            log.info("the lease was not released: %s", error)
        self._held = None

    def try_once(self) -> bool:
        """Take or renew the lease if it is free, expired or held by this process, and return whether that succeeded."""
        try:
            lease = self._api.get(LEASES, self._namespace, self._name)
        except NotFoundError:
            return self._write(None)
        except ApiError as error:
            log.warning("the lease cannot be read: %s", error)
            return False
        spec = lease.get("spec", {})
        holder = str(spec.get("holderIdentity") or "")
        mark = f"{holder}/{spec.get('renewTime')}/{lease['metadata']['resourceVersion']}"
        if self._seen is None or self._seen[0] != mark:
            self._seen = (mark, self._clock())
        wait = float(spec.get("leaseDurationSeconds") or self._duration_s)
        if holder in ("", self._identity) or self._clock() - self._seen[1] > wait:
            return self._write(lease)
        return False

    def _write(self, lease: Object | None) -> bool:
        now = stamp(datetime.now(UTC))
        before = (lease or {}).get("spec", {})
        mine = before.get("holderIdentity") == self._identity
        spec: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._duration_s)),
            "acquireTime": before.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (not mine),
        }
        began = self._clock()
        try:
            if lease is None:
                meta = {"name": self._name, "namespace": self._namespace}
                body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": meta, "spec": spec}
                self._held = self._api.create(LEASES, body)
            else:
                self._held = self._api.replace(LEASES, {**lease, "spec": spec})
        except ConflictError:
            return False  # another operator was faster
        except ApiError as error:
            log.warning("the lease was not written: %s", error)
            return False
        self._renewed = began
        return True

    def _renew_regularly(self) -> None:
        while not self._ended.wait(self._duration_s * RENEW_SHARE):
            try:
                self.try_once()
            except Exception:  # no error may end this thread: the other one notices when the lease is lost
                log.exception("the lease %s/%s was not renewed", self._namespace, self._name)

    def _end_in_time(self) -> None:
        while not self._ended.wait(max(0.0, self._time_left_s())):
            if not self.is_held():
                log.error("the lease %s/%s is lost: this operator ends", self._namespace, self._name)
                self._on_loss()
                return

    def _time_left_s(self) -> float:
        return self._renewed + self._duration_s * GIVE_UP_SHARE - self._clock()
