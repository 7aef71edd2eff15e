"""The times of documents, reports and drivers, as a thread sees them in the cluster."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass

from demo.kube import rendered
from dynamic_kafka.contract.driver_report import DriverReport
from dynamic_kafka.contract.kubernetes_names import (
    RENDERED_ROLE,
    REPORT_ANNOTATION,
    REVISION_ANNOTATION,
    ROLE_LABEL,
    SUBSCRIPTION_LABEL,
)
from tests.e2e.application import Application
from tests.e2e.story import Change
from tests.support.kube import PODS, KubeError
from tests.support.kube.api import Api, Json

_CONFIG_MAPS = "v1/configmaps"
_LOOK_S = 0.2
_APPLICATION = "sparkoperator.k8s.io/app-name"


@dataclass(frozen=True)
class Rendered:
    """One document of an application, when it was first seen.

    Attributes:
        clusters: `Active` or `Draining` by cluster.
    """

    at: float
    revision: str
    clusters: dict[str, str]


@dataclass(frozen=True)
class Driver:
    """One driver pod, when it was first seen, and the revision that it was restarted for."""

    at: float
    uid: str
    name: str
    revision: str


@dataclass(frozen=True)
class Reported:
    """One report of a driver, when it was first seen."""

    at: float
    report: DriverReport

    def drained(self, cluster: str, quiet_s: float) -> bool:
        """Return whether a topic of a cluster has no record left by this report, and has been quiet for so long."""
        return any(
            topic.cluster == cluster and topic.lag == 0 and topic.quiet_s >= quiet_s for topic in self.report.draining
        )


class Timeline:
    """A thread that looks at the cluster five times a second.

    Attributes:
        rendered: the documents by application, in their order.
        applied: (application, revision), and when each driver pod, by UID, first reported it as in force.
        drivers: the driver pods by application, in their order.
        reports: the drivers' reports by application, in their order.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        """Prepare the thread, without starting it."""
        self._api, self._namespace = api, namespace
        self.rendered: dict[str, list[Rendered]] = defaultdict(list)
        self.applied: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        self.drivers: dict[str, list[Driver]] = defaultdict(list)
        self.reports: dict[str, list[Reported]] = defaultdict(list)
        self._problem: Exception | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="timeline", daemon=True)

    def start(self) -> None:
        """Start looking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._end.set()
        self._thread.join()

    def check(self) -> None:
        """Raise the error that ended the thread, if one did."""
        if self._problem is not None:
            raise RuntimeError(f"the timeline's thread ended: {self._problem!r}") from self._problem

    def documents_since(self, application: str, at: float) -> list[Rendered]:
        """Return the documents that were rendered at a time or later."""
        return [document for document in self.rendered[application] if document.at >= at]

    def applied_since(self, application: Application, at: float) -> float | None:
        """Return when a driver first had a document in force that was rendered at a time or later.

        Under `Restart` only a driver counts that has started since: the old one may take a document up before its end.
        """
        new = {driver.uid for driver in self.drivers[application.name] if driver.at >= at}
        times = [
            seen
            for document in self.documents_since(application.name, at)
            for uid, seen in self.applied.get((application.name, document.revision), {}).items()
            if application.strategy != "Restart" or uid in new
        ]
        return min(times, default=None)

    def reads_again(self, application: Application, at: float) -> bool:
        """Return whether each driver that has started at a time or later has delivered a row."""
        return None not in self._pauses(application, at)

    def reports_since(self, application: str, at: float) -> list[Reported]:
        """Return the reports that were first seen at a time or later."""
        return [report for report in self.reports[application] if report.at >= at]

    def change(self, application: Application, what: str, at: float, added: str) -> Change:
        """Return the times of a change that an application has in force.

        Args:
            at: when the tool called kubectl.
            added: a cluster of which the sink has a row since then; empty if the change adds none.
        """
        rendered = self.documents_since(application.name, at)[0].at
        applied = self.applied_since(application, at)
        assert applied is not None
        first = application.first_row(added, at) if added else None
        return Change(
            what,
            application.name,
            at,
            apply_to_rendered=round(rendered - at, 2),
            rendered_to_applied=round(applied - rendered, 2),
            applied_to_first_record=round(first - applied, 2) if first else None,
            apply_to_first_record=round(first - at, 2) if first else None,
            restart_total=self.restart_total(application, at),
            way=application.strategy,
        )

    def restart_total(self, application: Application, at: float) -> float | None:
        """Return the longest pause around the start of a driver since a time, in seconds; None without one."""
        pauses = [round(pause, 2) for pause in self._pauses(application, at) if pause is not None]
        return max(pauses, default=None)

    def _pauses(self, application: Application, at: float) -> list[float | None]:
        """Return the pause around the start of each driver since a time; None where no row has come yet."""
        return [application.pause_around(driver.at) for driver in self.drivers[application.name] if driver.at >= at]

    def _run(self) -> None:
        while not self._end.wait(_LOOK_S):
            try:
                self._look()
            except KubeError:
                continue  # the API server is away
            except Exception as error:
                self._problem = error
                return

    def _look(self) -> None:
        documents = self._api.list(_CONFIG_MAPS, self._namespace, labelSelector=f"{ROLE_LABEL}={RENDERED_ROLE}")
        pods = self._api.list(PODS, self._namespace, labelSelector="spark-role=driver")
        now = time.time()
        for document in documents:
            self._see_document(document, now)
        for pod in pods:
            self._see_driver(pod, now)

    def _see_document(self, config_map: Json, now: float) -> None:
        application = config_map["metadata"]["labels"][SUBSCRIPTION_LABEL]
        try:
            revision, clusters = rendered(config_map)
        except (KeyError, ValueError):
            return  # edited by hand
        known = self.rendered[application]
        if revision not in {document.revision for document in known}:
            known.append(Rendered(now, revision, clusters))

    def _see_driver(self, pod: Json, now: float) -> None:
        metadata = pod["metadata"]
        application = metadata["labels"][_APPLICATION]
        annotations = metadata.get("annotations") or {}
        known = self.drivers[application]
        if metadata["uid"] not in {driver.uid for driver in known}:
            known.append(Driver(now, metadata["uid"], metadata["name"], annotations.get(REVISION_ANNOTATION, "")))
        if REPORT_ANNOTATION in annotations:
            report = DriverReport.parse(annotations[REPORT_ANNOTATION])
            reports = self.reports[application]
            if not reports or reports[-1].report != report:
                reports.append(Reported(now, report))
            if report.applied is not None:
                self.applied[application, report.applied].setdefault(metadata["uid"], now)
