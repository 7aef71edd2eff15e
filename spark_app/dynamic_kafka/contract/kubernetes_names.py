"""Names that the operator, the application and users share: annotations, labels, keys and paths. Pure constants.

The operator writes the document and the annotations of a SparkApplication; the driver annotates its own pod. Each reads
what the other wrote. These names must not change: `docs/reference/operator.md` lists them, and a test compares.
"""

from __future__ import annotations

import hashlib

GROUP = "kafkastream.dev"
VERSION = "v1alpha1"

ROLE_LABEL = f"{GROUP}/role"
"""Label of ConfigMaps: `metadata` marks a user's streams, `rendered` a document of the operator's."""
METADATA_ROLE, RENDERED_ROLE = "metadata", "rendered"
SUBSCRIPTION_LABEL = f"{GROUP}/subscription"
"""Label of a rendered ConfigMap: the name of its subscription."""

REPORTED_STREAMS_BYTES = 32 * 1024
"""Streams up to this size are part of the driver report, so that the operator can restore a lost document."""

STREAMS_ANNOTATION = f"{GROUP}/streams"
PATTERN_ANNOTATION = f"{GROUP}/stream-pattern"
STRATEGY_ANNOTATION = f"{GROUP}/update-strategy"
"""Annotations of a SparkApplication, set by its user: the operator creates its subscription from them."""

REVISION_ANNOTATION = f"{GROUP}/revision"
"""The token: annotation of a SparkApplication's driver (`spec.driver.annotations`), set by the operator. Its value is
the revision that the restart brings, `<lineage>/<counter>`. The new driver's pod shows it, which confirms the
restart."""
REFRESH_ANNOTATION = f"{GROUP}/refresh"
"""Annotation of a driver's pod, set by the operator: a change makes the kubelet refresh the pod's volumes at once."""
REPORT_ANNOTATION = f"{GROUP}/report"
"""Annotation of a driver's pod, set by the driver itself: the driver report as JSON (`contract.driver_report`)."""
DRAIN_REPORT_INTERVAL_S = 10.0
"""Seconds between two reports while a topic drains. A report counts as evidence for three of these intervals."""
RELEASE_ANNOTATION = f"{GROUP}/release"
"""Annotation of a subscription, set by a user: each `cluster` or `cluster/topic`, separated by commas, ends a drain
without evidence. An entry counts once, for the topics that drain when it appears. A suffix `@…` makes a new entry."""

RELEASE_ROLLOUT_ANNOTATION = f"{GROUP}/release-rollout"
"""Annotation of a subscription, set by a user: the revision whose failed restart pauses no other restarts any more."""

APPLICATION_GONE_ANNOTATION = f"{GROUP}/application-gone-since"
"""Annotation of a rendered ConfigMap whose subscription is gone, set by the operator: since when no application has its
name."""

RETRY_ANNOTATION = f"{GROUP}/retry"
"""Annotation of a subscription, set by a user: the revision whose roll-out the operator tries again after it has given
up, `<lineage>/<counter>`. A value counts once. A suffix `@…` makes a new one."""

REVISION_ENVIRONMENT = "KAFKASTREAMS_REVISION"
"""Environment variable of the driver, set by the operator through `sparkConf`: the revision to await at the start."""

REPORTER_ROLE = "kafkastream-reporter"
REPORTER_VERBS = ("get", "patch")
"""The Role by which drivers report, and what it allows on pods. The chart, the examples and the operator's
message about a silent driver all make the same one."""

POD_NAME_ENVIRONMENT = "KAFKASTREAMS_POD_NAME"
"""Environment variable of the driver that a user may set: the name of its pod, where Spark does not set that."""
SERVICE_ACCOUNT_ENVIRONMENT = "KAFKASTREAMS_SERVICE_ACCOUNT"
"""Environment variable of the driver that a user may set: the folder to use instead of `SERVICE_ACCOUNT_PATH`."""
SERVICE_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
"""The folder in which Kubernetes mounts the service account's token."""

DOCUMENT_KEY = "streams.json"
PACKED_DOCUMENT_KEY = "streams.json.gz"
"""Keys of a rendered ConfigMap: the document as text, or compressed."""
MOUNT_PATH = "/etc/kafkastreams"
SECRETS_PATH = "/etc/kafkastreams-secrets"
"""Folders in which the document and the clusters' credentials are mounted."""
CONFIG_MAP_SUFFIX = "-kafkastreams"
NAME_CHARACTERS = 253
"""The longest name that Kubernetes allows."""
SECRET_CHARACTERS = 56
"""The longest name of a Secret that Spark can mount. Spark names the volume `<Secret>-volume`, and the name of a volume
has at most 63 characters and no dot."""


def config_map_name(application: str) -> str:
    """Return the name of an application's ConfigMap: `<application>-kafkastreams`.

    A name that would be too long is cut, and gets a hash of the application's name before the suffix.
    """
    name = application + CONFIG_MAP_SUFFIX
    if len(name) <= NAME_CHARACTERS:
        return name
    digest = hashlib.sha256(application.encode()).hexdigest()[:8]
    return f"{application[: NAME_CHARACTERS - len(CONFIG_MAP_SUFFIX) - 9]}-{digest}{CONFIG_MAP_SUFFIX}"
