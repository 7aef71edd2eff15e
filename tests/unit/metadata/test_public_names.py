from __future__ import annotations

from dynamic_kafka import metadata


def test_the_public_names_are_pinned() -> None:
    """A removed name breaks users' own services and subscribers: think before changing this list."""
    public = (
        "ALLOWED_KEYS AwaitedRevision COMMITTED CREDENTIAL_KEYS ClusterMetadata Discovered DiscoveryStatus "
        "EARLIEST FileMetadataService KafkaMetadataService KafkaStream KafkaStreamSubscriber LATEST "
        "LOCATION_KEYS MetadataDiscovery MetadataDocument OffsetSpec Revision SECRET_FILE_KEYS "
        "StaticMetadataService StreamIdsSubscriber StreamPatternSubscriber SubscribedCluster Subscription "
        "check_properties document_hash load_class parse_document secret_file_problem unite"
    )
    assert " ".join(sorted(metadata.__all__)) == public
    assert all(hasattr(metadata, name) for name in metadata.__all__)
