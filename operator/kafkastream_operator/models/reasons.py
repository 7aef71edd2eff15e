"""Each reason of each condition: its status, its meaning and its remedy. Pure.

`make docs` generates docs/reference/conditions.md from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Status = Literal["True", "False", "Unknown"]


class Row(NamedTuple):
    """The meaning of one or several reasons of a condition.

    Attributes:
        reasons: the reasons, separated by commas; "" for every reason that no other row of the condition names.
        status: the status of the condition with these reasons.
        meaning: the fact behind the reason, in Markdown.
        remedy: the remedy, in Markdown; "" if nothing needs to be done.
    """

    reasons: str
    status: Status
    meaning: str
    remedy: str = ""


OF_SUBSCRIPTIONS: Mapping[str, tuple[Row, ...]] = {
    "ApplicationFound": (
        Row(
            "Running",
            "True",
            "the application runs. After a failure, the message keeps its count and "
            "[cause](docs/reference/operator.md#the-cause-of-a-failure) until a driver reports",
            "if the message has a cause, correct it. If there is no driver, the application's status is out of date: "
            "see that the Spark operator runs, and its log",
        ),
        Row(
            "Starting",
            "True",
            "the application starts. After a failure, the message keeps its count and cause, as that of `Running`",
            "wait, or correct the cause. If it lasts, `kubectl describe` the driver's pod: a quota, an image, a node, "
            "a Secret that is not there. Without a pod, see that the Spark operator runs, and its log",
        ),
        Row("Suspended, Completed", "True", "the application exists, and is in this state"),
        Row(
            "Failing",
            "True",
            "the application has failed, and its Spark operator tries again, as its `restartPolicy` says. `Ready` is "
            "False until the next attempt begins, then Unknown until its driver reports; `Stalled` is not True. The "
            "message quotes the [cause](docs/reference/operator.md#the-cause-of-a-failure) and the count of failures "
            "in a row",
            "correct the cause. If it fails again and again, [an "
            "alert](docs/how-to/runbooks.md#kafkastreamapplicationfailing) fires",
        ),
        Row(
            "Failed",
            "True",
            "the application has failed, and its Spark operator starts no driver. `Ready` is False. The message "
            "quotes the [cause](docs/reference/operator.md#the-cause-of-a-failure)",
            "correct the cause, and [start it again](docs/how-to/operator.md#restart-by-hand)",
        ),
        Row(
            "TopicIntegrity",
            "True",
            "the driver has ended for good, because a topic was deleted or re-created and [is "
            "checked](docs/reference/topic-integrity.md). The message has the topic and both ids. `Stalled` is True, "
            "and the operator starts nothing, whatever changes",
            "write the new id into the stream (`topicIds`), or take the topic out and "
            "[release](docs/how-to/operator.md#release-what-drains) it: the operator then starts the application "
            "(Kubeflow's kind, `Auto` and `Restart`; in a pause, at its end). While it is `Failing`, its Spark "
            "operator starts it. Else accept it with the tool, and run the command of the message",
        ),
        Row(
            "ApplicationMissing",
            "False",
            "there is no SparkApplication of that name and `apiVersion`",
            "apply it; or delete the subscription",
        ),
        Row(
            "Orphaned",
            "False",
            "the annotated application is gone; the document, with its drains, is kept for `orphanRetention`",
            "apply it again; or delete the subscription",
        ),
    ),
    "StreamsResolved": (
        Row("Resolved", "True", "every stream is there, valid and agreed on"),
        Row(
            "StreamMissing",
            "False",
            "no KafkaStream and no ConfigMap of this namespace has the stream",
            "apply it, or take its id out; if an unreadable ConfigMap may have it, the message names that",
        ),
        Row(
            "NothingMatches",
            "False",
            "no stream matches the pattern",
            "the pattern must match the whole id; if a ConfigMap cannot be read, the message names it",
        ),
        Row(
            "InvalidSubscription",
            "False",
            "the pattern is no regular expression, or not one of [RE2's](docs/reference/operator.md#limits); or the "
            "spec is that of a newer CRD; the document stays as it is",
            "correct the pattern, or update the operator",
        ),
        Row(
            "InvalidStream",
            "False",
            "a stream has a mistake; its last valid content stays",
            "correct the field that the message names",
        ),
        Row(
            "InvalidConfigMap",
            "False",
            "a labelled ConfigMap cannot be read; streams that only it may have stay",
            "correct the line and field that the message names",
        ),
        Row(
            "Conflict",
            "False",
            "two streams disagree about a cluster's servers, properties, Secret or offsets; or a cluster is renamed "
            "from one that is still read or drains, or to two ids",
            "write the same in both; to take a rename back, rename it back (`renamedFrom`)",
        ),
        Row(
            "RenamePending",
            "False",
            "a cluster is renamed once more, or its old id is given away, before a driver has reported the first "
            "rename; the content before stays",
            "let the application run, and its driver report (`Reporting`): the change then goes on by itself; or "
            "rename back",
        ),
        Row(
            "SecretNotBound",
            "False",
            "a cluster asks for a Secret that the subscription does not give it",
            "add or change the binding, if the cluster should have it",
        ),
        Row(
            "ServerNotAllowed",
            "False",
            "a Secret would go to servers that its binding does not name",
            "add them to `allowedServers` if they are yours; else find out who changed the stream",
        ),
        Row(
            "TooLarge",
            "False",
            "the document does not fit into a ConfigMap; the last one that fitted stays",
            "use several applications, or fewer topics",
        ),
        Row(
            "ApplicationTaken",
            "False",
            "an older subscription, which is not being deleted, has this application, or another application of its "
            "name",
            "delete one of the two subscriptions",
        ),
        Row(
            "ConfigMapTaken",
            "False",
            "a ConfigMap of that name belongs to a user, or to another subscription that is there, by its label "
            "and its content; the operator leaves it alone",
            "delete it, if no job reads it; another subscription's also has what drains",
        ),
        Row(
            "DocumentRefused",
            "False",
            "the API server refuses the document's ConfigMap (a quota, a policy, rights, `immutable`); what there is "
            "of it stays in force",
            "the message has the API server's answer: make room for it; delete an immutable one, if no job reads it. "
            "The operator tries again every minute",
        ),
        Row(
            "DocumentContested",
            "False",
            "another writer has changed or deleted the document's ConfigMap three times or more, each within ten "
            "minutes of the last restoration. The operator restores it after growing pauses, of a minute in the end, "
            "and begins no restart while the document is not its own",
            "find the writer by the ConfigMap's `managedFields`, and take the ConfigMap out of what it manages; the "
            "condition ends ten minutes after the last restoration",
        ),
        Row(
            "StatusRefused",
            "False",
            "the API server refuses the newest status, as where it is too large for etcd. The document is written; "
            "the other conditions are behind, and nothing is rolled out",
            "the message has the API server's answer: a shorter spec, or fewer topics that drain at once. The "
            "operator tries again every minute",
        ),
    ),
    "RolledOut": (
        Row(
            "Adopted",
            "True",
            "the first document is there: the application takes it when it starts, or its driver has started with it. "
            "The message says whether the driver has reported it",
        ),
        Row("Confirmed", "True", "the newest revision is in force"),
        Row(
            "AwaitsAnother",
            "False",
            "the application's spec names a revision that this document never becomes: the manifest is from another "
            "Kubernetes, or from a backup. With the same lineage, the driver waits for the revision until it fails. "
            "With another lineage, so does an older image; a newer image begins with a warning, and the condition "
            "ends when it reports",
            "take the keys that the message names out of the spec, and restart the application",
        ),
        Row(
            "NotRunning",
            "Unknown",
            "the application does not run, and is left alone",
            "start it when you want; if it has failed, its status and its driver's log say why",
        ),
        Row(
            "Waiting",
            "Unknown",
            "a live change waits for a driver, or a new driver has yet to report whether it took the revision",
        ),
        Row(
            "RollingOut",
            "False",
            "a roll-out is under way",
            "wait; if a restart lasts, see that the Spark operator runs, and what its log says about the application; "
            "then change the subscription's spec",
        ),
        Row("Coalescing", "False", "the restart waits, since restarts are kept apart", "wait"),
        Row(
            "Queued",
            "False",
            "the restart waits for others, since only so many are made at a time; the message has its place, and "
            "names those of its namespace that are in flight or about to begin",
            "wait; if one of these hangs, correct its cause, or [release "
            "it](docs/reference/operator-behaviour.md#a-wave-of-restarts), which frees its place, too",
        ),
        Row(
            "RolloutPaused",
            "False",
            "the restart waits, since that of another application of the stream has failed; the message names it",
            "correct the stream or that application; or [release the failed "
            "restart](docs/reference/operator-behaviour.md#a-wave-of-restarts), by the command of the message",
        ),
        Row(
            "Starting",
            "False",
            "the application was submitted anew, and its driver is not there yet",
            "`kubectl describe` the driver's pod: quota, image, nodes, a Secret or ConfigMap that is not there",
        ),
        Row(
            "Reverted",
            "False",
            "another writer took the patch back; the operator makes it again",
            "set your GitOps tool to [ignore the keys](docs/how-to/install-operator.md#gitops)",
        ),
        Row(
            "Paused",
            "False",
            "a roll-out was under way when the pause began; a live change that the driver rejects stays `Rejected`",
            "take `spec.pause` out",
        ),
        Row(
            "TopicIntegrity",
            "False",
            "a revision waits, since the driver has ended for a changed topic and would end again",
            "as `ApplicationFound` says",
        ),
        Row(
            "RestartRequired",
            "False",
            "a Secret has to be mounted, or the driver reports that it takes nothing live (or, Apache's, does not "
            "report), and the strategy makes no restart; or Apache's operator would not start it again",
            "[restart it](docs/how-to/operator.md#restart-by-hand) with the Secret mounted, or change `restartConfig`, "
            "as the message says",
        ),
        Row(
            "Rejected",
            "False",
            "the driver refuses the revision and goes on with the last one",
            "correct the stream by the reason in the message, or revert it, soon: a new driver would not start with "
            "this revision",
        ),
        Row(
            "NotConfirmed",
            "False",
            "the driver has not confirmed a live change",
            "look into its log; [restart it by hand](docs/how-to/operator.md#restart-by-hand) if it hangs",
        ),
        Row(
            "FieldTaken",
            "False",
            "another manager owns a field that the patch needs",
            "take the field out of that manager's manifest, or use `Reload`. Any change of the application or of the "
            "subscription's spec tries again, and so does [a retry](docs/how-to/operator.md#try-again)",
        ),
        Row(
            "PatchRefused",
            "False",
            "the API server refuses the patch, or the deletion of the driver's pod (rights, schema)",
            "the message has the API server's reason: correct it, or give the operator its rights by [`helm "
            "upgrade`](docs/how-to/install-operator.md#upgrade). Any change of the application or of the "
            "subscription's spec tries again, and so does [a retry](docs/how-to/operator.md#try-again)",
        ),
        Row(
            "RevertedByOthers",
            "False",
            "the patch was taken back three times; it is not made again",
            "set your GitOps tool to [ignore the keys](docs/how-to/install-operator.md#gitops), then "
            "[try again](docs/how-to/operator.md#try-again); or use `Reload`",
        ),
        Row(
            "Stalled",
            "False",
            "five patches brought no new driver",
            "look at the spark-operator: does it run, and what does its log say about the application? Any change of "
            "a stream or of the subscription's spec tries again, and so does "
            "[a retry](docs/how-to/operator.md#try-again)",
        ),
    ),
    "Mounted": (
        Row("Mounted", "True", "the driver mounts the document"),
        Row(
            "NotMounted",
            "False",
            "it does not; or it mounts it by `subPath`, or in another container, as the message says",
            "add the [mount](docs/how-to/operator.md#subscribe) of the whole folder, and see that Kubeflow's webhook "
            "runs (Apache's needs none). [The examples](examples/kubernetes) have it",
        ),
        Row(
            "SecretsNotMounted",
            "False",
            "the application does not mount the clusters' Secrets",
            "let the operator restart it, or add the `sparkConf` keys that the message names",
        ),
        Row("NoDriver", "Unknown", "no driver runs"),
    ),
    "Reporting": (
        Row("Reporting", "True", "the driver reports"),
        Row("NoDriver", "Unknown", "no driver runs"),
        Row(
            "AwaitsReport",
            "Unknown",
            "the driver's pod has just begun to run; the first report may take as long as `--confirm-live` from then "
            "on. If the application has failed before, the message has the count and the last "
            "[cause](docs/reference/operator.md#the-cause-of-a-failure)",
            "wait; or correct that cause",
        ),
        Row(
            "NoReport",
            "False",
            "its pod has run for `--confirm-live` without a report: drains cannot end, changes are not live",
            "see in its log whether it still starts; then wait. Else use an image that reports, or see in its log why "
            "no report gets through. If its account lacks the [right](docs/how-to/operator.md#subscribe), run the "
            "commands of the message",
        ),
        Row(
            "ReportUnreadable",
            "False",
            "its pod's annotation holds no report of a version that this operator can read",
            "update the image, or the operator; look for another writer of the annotation",
        ),
        Row("ImageTooOld", "False", "the image cannot read this operator's documents", "update it"),
    ),
    "Finished": (
        Row("NotFinished", "False", "the application has not ended by itself, as far as its reports say"),
        Row(
            "SplitsOpen",
            "False",
            "some splits have ended at their stop records, and the ones that the message names have not: they keep "
            "the application running",
            "write a stop record to each partition, or take the topic out of its stream",
        ),
        Row(
            "Finished",
            "True",
            "every query has read everything, up to its stop records or stopping offsets, and the application has "
            "ended by itself. It reads nothing more, and so nothing drains. `status.finished` keeps what its last "
            "report said",
            "to read on, give it another checkpoint",
        ),
        Row(
            "RunsAgain",
            "True",
            "the same, and its `restartPolicy` is `Always`: its Spark operator runs it again and again, and each run "
            "ends at once with 0",
            "set `OnFailure`, as the message says",
        ),
        Row(
            "Stopped",
            "False",
            "the application is `Completed`, and neither a report nor the ended pod says that it has read everything "
            "for good: it was stopped, or its trigger reads what there is. If the message says that the pod is gone, "
            "it may also have finished while the operator was away",
            "start it again: it reads on, or ends at once",
        ),
    ),
    "ClusterNeverReached": (
        Row("AllReached", "False", "the driver has reported the newest revision, and has reached each of its clusters"),
        Row(
            "NeverReached",
            "True",
            "a new cluster does not answer, and the driver has never read it; the others are read. The message has "
            "its servers and the cause, and says so if they are from a report on an earlier revision",
            "correct the servers, the log-in or the network, or take the cluster out of its stream, and "
            "release it: it may hold records",
        ),
        Row("AwaitsReport", "Unknown", "the driver has not reported the newest revision yet", "wait; see `RolledOut`"),
        Row(
            "AwaitsAnswer",
            "Unknown",
            "a new cluster has neither answered nor failed yet; the others are read",
            "wait about a minute",
        ),
        Row("NoReport, NoDriver", "Unknown", "the driver does not report, or none runs", "see `Reporting`"),
    ),
    "TopicsReady": (
        Row(
            "SourceTopicMissing",
            "False",
            "the application has ended since a topic of its streams does not exist (exit code 10)",
            "create the topic, or take it out of its stream",
        ),
        Row(
            "InternalTopicMissing",
            "False",
            "the application has ended since an [internal topic](docs/how-to/internal-topics.md) is missing or was "
            "re-created (exit code 11)",
            "run the command of the message, or the [Job](examples/kubernetes/init-job.yaml); then start the "
            "application",
        ),
        Row(
            "InternalTopicMisconfigured",
            "False",
            "the application has ended since internal topics are not as `app.yaml` declares them (exit code 12)",
            "correct them, as the driver's log lists it",
        ),
        Row(
            "InternalTopicLost",
            "False",
            "the driver reports that internal topics were deleted or re-created; reading goes on",
            "the next start makes missing ones again. The first start that finds all of them unchanged ends the reason",
        ),
    ),
    "Drained": (
        Row("NothingDrains", "True", "nothing drains"),
        Row(
            "Draining",
            "False",
            "topics drain; the message names each with what it waits for",
            "usual after a removal; if it lasts, see [what to do](docs/reference/operator-behaviour.md#draining)",
        ),
        Row(
            "DrainTimedOut",
            "False",
            "a drain takes longer than `drain.timeout`",
            "see [what the topic waits for](docs/reference/operator-behaviour.md#draining), or release it",
        ),
    ),
    "Ready": (
        Row(
            "InForce, NeverReached, NotRunning, Finished, RunsAgain",
            "True",
            "the summary of the conditions above: the document is in force; or no application runs, and nothing is "
            "wrong",
        ),
        Row(
            "ClockStands",
            "True",
            "the document is in force. A query with [alignment](docs/how-to/time.md) has had unread records for five "
            "minutes, and its clock has not moved. The message names the split or the announced cluster that it waits "
            "for",
            "[the table](docs/how-to/time.md#if-the-stream-stands-still) has a row for each cause",
        ),
        Row(
            "AwaitsReport, Waiting",
            "Unknown",
            "the application runs or starts, and no driver has shown yet that it has the newest document. "
            "`AwaitsReport` keeps the count and the last [cause](docs/reference/operator.md#the-cause-of-a-failure) of "
            "failures until a driver reports",
            "wait; if it lasts, `kubectl describe` the driver's pod; if it names a failure, correct its cause",
        ),
        Row(
            "",
            "False",
            "the reason of the first bad one of the conditions above, with `Failed` and `Failing` among them",
            "see that reason",
        ),
    ),
    "Reconciling": (
        Row("Settled", "False", "no roll-out is under way"),
        Row("RollingOut, Coalescing, Starting, Reverted, Queued, RolloutPaused", "True", "a roll-out is under way"),
    ),
    "Stalled": (
        Row("Settled", "False", "nobody is needed"),
        Row(
            "",
            "True",
            "a person is needed. `Reconciling` is False then, even if a revision is on its way; and what that "
            "revision ends by itself, such as `SecretsNotMounted`, is not stalled meanwhile",
            "see that reason",
        ),
    ),
}
"""The conditions of a KafkaStreamSubscription."""
OF_STREAMS: Mapping[str, tuple[Row, ...]] = {
    "Ready": (
        Row("Valid", "True", "it is valid"),
        Row("Shadows", "True", "it wins over the same stream in a ConfigMap", "take it out of one of the two"),
        Row(
            "InvalidStream",
            "False",
            "it has a mistake, and is not rolled out",
            "correct the field that the message names",
        ),
        Row("Conflict", "False", "it disagrees with another stream about a cluster", "write the same in both"),
        Row(
            "Rejected",
            "False",
            "the drivers of the named applications go on with the document before. The change that they reject, "
            "with the cause, may be one of another stream of theirs",
            "correct or revert the change that the message names",
        ),
    ),
    "Reconciling": (
        Row("Settled", "False", "no roll-out is under way"),
        Row(
            "RollingOut",
            "True",
            "a newer document is being rolled out in the subscriptions that the message names, for this stream or "
            "another of theirs, or their document does not have this stream yet (also in a pause; a subscription that "
            "is `Stalled` itself does not count)",
            "`kubectl get kss` says which of them waits for what",
        ),
    ),
    "Stalled": (
        Row("Settled", "False", "nobody is needed"),
        Row("", "True", "a person has to correct the stream", "see that reason"),
    ),
    "InForce": (
        Row(
            "InForce",
            "True",
            "the newest form of the stream is in force in every application that has a subscription to it. One that "
            "is suspended, completed or absent takes it when it starts, and counts",
        ),
        Row(
            "NotInForce",
            "False",
            "the message names the applications in which it is not in force, each with the reason. One that has "
            "failed, or has yet to report, is among them",
            "`kubectl describe kss` of that subscription",
        ),
        Row("NotSubscribed", "Unknown", "no subscription asks for the stream"),
        Row("InvalidStream", "False", "as in `Ready`", "correct the field that the message names"),
    ),
    "Drained": (
        Row(
            "NothingDrains",
            "True",
            "no application reads anything for this stream that the stream does not name. Before you shut a cluster "
            "down, wait until its `state` is `Released`",
        ),
        Row(
            "Draining",
            "False",
            "it names the subscription that still reads the cluster, or may, since when and why; or the one whose "
            "document without it is not in force yet",
            "wait, or see `Drained` and `RolledOut` of those subscriptions; delete a document that was left behind, "
            "when no job reads it",
        ),
    ),
}
"""The conditions of a KafkaStream."""

_STATUSES: Mapping[tuple[str, str], Status] = {
    (kind, reason): row.status
    for table in (OF_SUBSCRIPTIONS, OF_STREAMS)
    for kind, rows in table.items()
    for row in rows
    for reason in row.reasons.split(", ")
}


def status_of(kind: str, reason: str) -> Status:
    """Return the status that a condition has with this reason.

    Raises:
        KeyError: the table has no such reason, and the condition no row for every other one.
    """
    return _STATUSES.get((kind, reason)) or _STATUSES[kind, ""]
