"""Names that operator, application and users share: annotations, labels, keys, places. Pure constants.

The operator writes the document and the annotations of a SparkApplication, the driver annotates its own pod; both read
what the other wrote. A name here is a promise: `docs/operator.md` lists them, and a test compares.
"""

from __future__ import annotations

GROUP = "kafkastream.dev"
VERSION = "v1alpha1"

ROLE_LABEL = f"{GROUP}/role"
"""On ConfigMaps: `metadata` are users' streams, `rendered` are the operator's documents."""
METADATA_ROLE, RENDERED_ROLE = "metadata", "rendered"
SUBSCRIPTION_LABEL = f"{GROUP}/subscription"
"""On a rendered ConfigMap: the name of its subscription."""

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
RELEASE_ANNOTATION = f"{GROUP}/release"
"""On a subscription, by a person: `cluster` or `cluster/topic`, separated by commas, that need not be drained."""

REVISION_ENVIRONMENT = "KAFKASTREAMS_REVISION"
"""In the driver's environment, by the operator through `sparkConf`: the revision to wait for at the start."""

DOCUMENT_KEY = "streams.json"
PACKED_DOCUMENT_KEY = "streams.json.gz"
"""Keys of a rendered ConfigMap: the document, as text or packed."""
MOUNT_PATH = "/etc/kafkastreams"
SECRETS_PATH = "/etc/kafkastreams-secrets"
"""Where the document and the clusters' credentials are mounted."""
CONFIG_MAP_SUFFIX = "-kafkastreams"
