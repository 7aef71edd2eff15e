"""Names that operator, application and users share: annotations, labels, keys, places. Pure constants.

The operator writes the document and the annotations of a SparkApplication, the driver annotates its own pod; both read
what the other wrote. A name here is a promise: `docs/operator.md` lists them, and a test compares.
"""

from __future__ import annotations

import hashlib

GROUP = "kafkastream.dev"
VERSION = "v1alpha1"

ROLE_LABEL = f"{GROUP}/role"
"""On ConfigMaps: `metadata` are users' streams, `rendered` are the operator's documents."""
METADATA_ROLE, RENDERED_ROLE = "metadata", "rendered"
SUBSCRIPTION_LABEL = f"{GROUP}/subscription"
"""On a rendered ConfigMap: the name of its subscription."""

REPORTED_STREAMS_BYTES = 32 * 1024
"""Streams up to this size are repeated in a driver's report, so that a document that was lost can be made again."""

STREAMS_ANNOTATION = f"{GROUP}/streams"
PATTERN_ANNOTATION = f"{GROUP}/stream-pattern"
STRATEGY_ANNOTATION = f"{GROUP}/update-strategy"
"""On a SparkApplication, by its user: they create its subscription."""

REVISION_ANNOTATION = f"{GROUP}/revision"
"""On a SparkApplication's driver (`spec.driver.annotations`), by the operator: the revision that it was restarted for,
`<lineage>/<counter>`. It arrives on the driver's pod, where it confirms the restart."""
REFRESH_ANNOTATION = f"{GROUP}/refresh"
"""On a driver's pod, by the operator: changed to make the kubelet refresh the pod's volumes at once."""
REPORT_ANNOTATION = f"{GROUP}/report"
"""On a driver's pod, by the driver itself: what it has applied and how far it has drained, as JSON."""
REPORT_BEAT_S = 10.0
"""How often a driver reports while something drains. The operator takes a report for evidence for three of these."""
RELEASE_ANNOTATION = f"{GROUP}/release"
"""On a subscription, by a person: `cluster` or `cluster/topic`, separated by commas, that need not be drained. Each
counts once, for what drains when it comes; `@…` behind it makes another of it."""

REVISION_ENVIRONMENT = "KAFKASTREAMS_REVISION"
"""In the driver's environment, by the operator through `sparkConf`: the revision to wait for at the start."""

POD_NAME_ENVIRONMENT = "KAFKASTREAMS_POD_NAME"
"""In the driver's environment, by whoever wants to: the name of its pod, where Spark does not tell it."""
SERVICE_ACCOUNT_ENVIRONMENT = "KAFKASTREAMS_SERVICE_ACCOUNT"
"""Likewise: the folder of the service account's token, instead of `SERVICE_ACCOUNT_PATH`."""
SERVICE_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where Kubernetes mounts it."""

DOCUMENT_KEY = "streams.json"
PACKED_DOCUMENT_KEY = "streams.json.gz"
"""Keys of a rendered ConfigMap: the document, as text or packed."""
MOUNT_PATH = "/etc/kafkastreams"
SECRETS_PATH = "/etc/kafkastreams-secrets"
"""Where the document and the clusters' credentials are mounted."""
CONFIG_MAP_SUFFIX = "-kafkastreams"
NAME_CHARACTERS = 253
"""What Kubernetes allows for a name."""
SECRET_CHARACTERS = 56
"""What Spark can mount of a Secret: it calls the volume `<Secret>-volume`, which is a label: 63, and no dot."""


def config_map_name(application: str) -> str:
    """The ConfigMap of an application: `<application>-kafkastreams`. A name that is too long is cut, and ends in a hash
    of the whole."""
    name = application + CONFIG_MAP_SUFFIX
    if len(name) <= NAME_CHARACTERS:
        return name
    digest = hashlib.sha256(application.encode()).hexdigest()[:8]
    return f"{application[: NAME_CHARACTERS - len(CONFIG_MAP_SUFFIX) - 9]}-{digest}{CONFIG_MAP_SUFFIX}"
