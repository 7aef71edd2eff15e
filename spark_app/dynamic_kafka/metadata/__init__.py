"""The metadata of streams: its document, its services, and its discovery.

The public names of this package. Users' own services and subscribers derive from the classes here.

A cluster has one type for each role: `document_models.DocumentCluster` as a document writes it, `ClusterMetadata` as
one stream uses it, and `SubscribedCluster` as a query reads it, united over all its streams.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dynamic_kafka.metadata.discovery_state import Discovered, DiscoveryStatus
from dynamic_kafka.metadata.model import COMMITTED, EARLIEST, LATEST, ClusterMetadata, KafkaStream, OffsetSpec, Revision
from dynamic_kafka.metadata.properties import (
    ALLOWED_KEYS,
    CREDENTIAL_KEYS,
    LOCATION_KEYS,
    SECRET_FILE_KEYS,
    check_properties,
    secret_file_problem,
)
from dynamic_kafka.metadata.revision import AwaitedRevision
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription, unite

if TYPE_CHECKING:
    from dynamic_kafka.metadata.discovery import MetadataDiscovery
    from dynamic_kafka.metadata.document import MetadataDocument, document_hash, parse_document
    from dynamic_kafka.metadata.services.file import FileMetadataService
    from dynamic_kafka.metadata.services.service import KafkaMetadataService, StaticMetadataService, load_class
    from dynamic_kafka.metadata.subscriber import KafkaStreamSubscriber, StreamIdsSubscriber, StreamPatternSubscriber

__all__ = [
    "ALLOWED_KEYS",
    "COMMITTED",
    "CREDENTIAL_KEYS",
    "EARLIEST",
    "LATEST",
    "LOCATION_KEYS",
    "SECRET_FILE_KEYS",
    "AwaitedRevision",
    "ClusterMetadata",
    "Discovered",
    "DiscoveryStatus",
    "FileMetadataService",
    "KafkaMetadataService",
    "KafkaStream",
    "KafkaStreamSubscriber",
    "MetadataDiscovery",
    "MetadataDocument",
    "OffsetSpec",
    "Revision",
    "StaticMetadataService",
    "StreamIdsSubscriber",
    "StreamPatternSubscriber",
    "SubscribedCluster",
    "Subscription",
    "check_properties",
    "document_hash",
    "load_class",
    "parse_document",
    "secret_file_problem",
    "unite",
]

_ON_DEMAND = {
    "MetadataDiscovery": "discovery",
    "MetadataDocument": "document",
    "document_hash": "document",
    "parse_document": "document",
    "FileMetadataService": "services.file",
    "KafkaMetadataService": "services.service",
    "StaticMetadataService": "services.service",
    "load_class": "services.service",
    "KafkaStreamSubscriber": "subscriber",
    "StreamIdsSubscriber": "subscriber",
    "StreamPatternSubscriber": "subscriber",
}
"""The names whose modules import pydantic or yaml, and their modules. Executors need neither of them."""


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ON_DEMAND[name]}"), name)
