"""The tool `validate`: check an `app.yaml` without Spark, and with `--connect` its clusters. Writes nothing.

The checks continue after a mistake, so that one run finds as many as possible. Secrets are resolved as a client would
resolve them, and never shown.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.internal_topics import InternalTopics
from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.config.schema import Sink
from dynamic_kafka.app.failures import code_of
from dynamic_kafka.app.internal_topics.home import find_home
from dynamic_kafka.app.query.sinks import load_function, search_beside
from dynamic_kafka.app.tools.announced_waits import announced_waits
from dynamic_kafka.app.tools.formatting import table
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.driver.cluster_clients import ClusterProbes, client_of, refuse_missing, request_of
from dynamic_kafka.driver.cluster_failures import with_choices
from dynamic_kafka.driver.home_servers import home_id_of
from dynamic_kafka.driver.metadata_services import make_service, make_subscriber
from dynamic_kafka.errors import ClusterError, DynamicKafkaError, MetadataInvalidError, OptionError
from dynamic_kafka.executor.evaluating.evaluation import Evaluation
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.kafka.config_checks import check_client, check_client_properties
from dynamic_kafka.kafka.probe import collect_observations
from dynamic_kafka.metadata.services.service import KafkaMetadataService, load_class
from dynamic_kafka.metadata.subscriber import KafkaStreamSubscriber
from dynamic_kafka.metadata.subscription import Subscription, unite
from dynamic_kafka.options import CustomSubscriber, SourceOptions
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.state.binding import bound_state
from dynamic_kafka.state.checkpoints import Checkpoint, refuse_old_checkpoint
from dynamic_kafka.state.file_systems import check_writable
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.user_code import is_import_path
from dynamic_kafka.wording import counted, first_few

HELP = "check an app.yaml, its metadata, classes, client properties and secrets; with --connect its clusters"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        text: the result for the user.
        error: the mistake; None if there is none, or the check was not made.
        made: whether the check was made.
    """

    check: str
    text: str
    error: DynamicKafkaError | None = None
    made: bool = True

    @property
    def state(self) -> str:
        """The word of the second column."""
        return "WRONG" if self.error else "ok" if self.made else "-"


_NOT_CONNECTED = Finding(
    "connections", "not checked: servers, log-in, topics and rights; --connect asks the clusters", made=False
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `validate`."""
    parser.add_argument("app", metavar="APP.YAML", help="the application's file")
    parser.add_argument("--connect", action="store_true", help="ask the clusters, too: servers, log-in, topics, rights")
    parser.add_argument("--json", action="store_true", help="print one JSON list instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Check and print; return the exit code of the first mistake, with which `run` would end too, or 0."""
    findings = validate(arguments.app, connected=arguments.connect)
    if arguments.json:
        wire = [
            {"check": finding.check, "ok": finding.error is None, "made": finding.made, "text": finding.text}
            for finding in findings
        ]
        print(json.dumps(wire, indent=1))
    else:
        rows = [
            (finding.check, finding.state, line) for finding in findings for line in (finding.text.splitlines() or [""])
        ]
        print(table(("check", "", "what"), rows))
    return next((code_of(finding.error) for finding in findings if finding.error), ExitCode.DONE)


def validate(path: str, *, connected: bool = False) -> list[Finding]:
    """Return the results of all checks of an `app.yaml`, in order.

    Args:
        connected: whether to ask the clusters, and services of the user's own, too.
    """
    try:
        config = load_config(path)
    except OptionError as error:
        return [Finding("app.yaml", str(error), error)]
    sinks = ", ".join(f"{sink.name} ({sink.format_name or 'foreachBatch'})" for sink in config.sinks)
    return [Finding("app.yaml", f"{config.name}: sinks {sinks}"), *_checks(config, connected=connected)]


def _checks(config: AppConfig, *, connected: bool) -> Iterator[Finding]:
    yield from _functions(config)
    options = config.shared_options
    for sink in config.sinks:
        yield _checkpoint(config, sink, allowed=options.allow_old_checkpoint)
        location = config.parsed_options(sink).state_location
        if location is not None:
            yield _checked(f"state of sink {sink.name}", partial(_state, config.checkpoint_of(sink), location))
    for check, warnings in (("app.yaml", config.warnings), ("options", options.warnings)):
        yield from (Finding(check, f"note: {warning}") for warning in warnings)
    yield _checked("client properties", partial(_client_properties, options.kafka_properties, config.where_is))
    declared = config.file.internal_topics
    if declared is not None and (declared.cluster is None or connected or options.service in ("file", "static")):
        yield _checked("internal topics", partial(_internal_topics, config, declared, options))
    yield from _metadata(options, connected=connected)


def _checkpoint(config: AppConfig, sink: Sink, *, allowed: bool) -> Finding:
    """Check that the checkpoint can be made and written, and is not older than the sink's files."""
    check, uri, files = f"checkpoint of sink {sink.name}", config.checkpoint_of(sink), sink.folder
    try:
        checkpoint = Checkpoint(uri)
    except OptionError as error:
        # pyarrow cannot reach the folder; Spark may.
        return Finding(check, f"not checked: {error}", made=False)
    try:
        text = check_writable(uri, "the checkpoint")
        if files is not None:
            refuse_old_checkpoint(checkpoint, files, allowed=allowed)
    except DynamicKafkaError as error:
        return Finding(check, str(error), error)
    return Finding(check, text)


def _state(checkpoint: str, location: str) -> str:
    """Check that the state folder can be written, and that it is the one that the query's sources have used."""
    text = check_writable(location, "stateLocation")
    try:
        opened = Checkpoint(checkpoint)
        planned = opened.planned
    except (OptionError, OSError):
        return text  # the check of the checkpoint reports that it cannot be read
    for document in opened.documents(planned):
        bound_state(StateLocation(location), document)
    return text


def _functions(config: AppConfig) -> Iterator[Finding]:
    named = [(f"function of sink {sink.name}", sink.foreach_batch) for sink in config.sinks]
    wanted = {f"transformation of sink {sink.name}": sink.transformation for sink in config.sinks}
    wanted["transformation"] = config.file.transformation
    named += [(check, requirement.function) for check, requirement in wanted.items() if requirement is not None]
    for check, path in named:
        if path is not None:
            yield _checked(check, partial(_function, path, config.source))
    options = config.shared_options
    evaluator = " after ".join(filter(None, (options.record_evaluator, options.record_deserializer)))
    if options.record_evaluator is not None:
        alone = replace(options, timestamp_assigner=None)
        yield _checked("record evaluator", partial(_evaluation, alone, config.source, evaluator))
    if (assigner := options.timestamp_assigner) is not None and is_import_path(assigner):
        alone = replace(options, record_evaluator=None, record_deserializer=None)
        yield _checked("timestamp assigner", partial(_evaluation, alone, config.source, assigner))


def _evaluation(options: SourceOptions, config_file: str, text: str) -> str:
    """Check that the user's code that the options name can be imported and made."""
    search_beside(config_file)
    Evaluation.of(options, {})
    return text


def _metadata(options: SourceOptions, *, connected: bool) -> Iterator[Finding]:
    """Check the metadata and its clusters. Without `connected`, only the metadata of a file is read."""
    if isinstance(options.subscribe, CustomSubscriber):
        yield _checked("subscriber", partial(_class, options.subscribe.path, KafkaStreamSubscriber))
    if options.single is not None:
        client = ClusterClient(options.single.cluster_id, options.kafka_properties, {})
        yield _checked(f"cluster {client.cluster}", partial(_secrets, client))
    elif options.service not in ("file", "static"):
        yield _checked("metadata service", partial(_class, options.service, KafkaMetadataService))
    if not connected and (options.single is not None or options.service not in ("file", "static")):
        asked = "the cluster itself lists its topics" if options.single is not None else options.service
        yield Finding("metadata", f"not checked: {asked}, which --connect asks", made=False)
        yield _NOT_CONNECTED
        return
    try:
        subscription, streams = _subscription(options)
    except MetadataInvalidError as error:
        yield Finding("metadata", "\n".join(error.problems), error)
        return
    except DynamicKafkaError as error:
        yield Finding("metadata", str(error), error)
        return
    ids = subscription.stream_ids
    text = f"reads {len(ids)} of {streams}: {', '.join(ids) or 'none yet'}"
    yield Finding("metadata", f"{text}; clusters: {', '.join(subscription.clusters) or 'none'}")
    for name, cluster in subscription.clusters.items():
        where = f"cluster {name}"
        yield _checked(where, partial(_client_properties, cluster.properties, where))
        yield _checked(where, partial(_secrets, client_of(options, subscription, name)))
        if options.own_topics is not None and not connected:
            try:
                options.own_topics.at_home_in(subscription).refuse(name, cluster.topics, None, lambda: None)
            except OptionError as error:
                yield Finding(where, str(error), error)
    if not connected:
        yield _NOT_CONNECTED
        return
    for name, answer in connect(options, subscription):
        yield Finding(f"connection to {name}", str(answer), answer if isinstance(answer, DynamicKafkaError) else None)


def _internal_topics(config: AppConfig, declared: InternalTopics, options: SourceOptions) -> str:
    """Check the home cluster of the internal topics: its name, its properties and its secrets. Asks no cluster."""
    where = f"{config.source}: internalTopics.properties"
    home = find_home(config, declared, lambda: _subscription(options)[0])
    if declared.cluster is None:
        _client_properties(home.client.common, where)
    _secrets(home.client)
    count = counted(len(declared.topics), "topic")
    return f"{count} with home cluster {home.name}; `init --dry-run` compares them with the cluster"


def _subscription(options: SourceOptions) -> tuple[Subscription, int]:
    service = make_service(options)
    try:
        subscriber = make_subscriber(options)
        streams = subscriber.get_subscribed_streams(service)
        subscriber.check_at_start(service, streams)
        return unite(streams), len(service.get_all_streams())
    finally:
        service.close()


def _client_properties(properties: Mapping[str, str], where: str | Callable[[str], str]) -> str:
    for key, value in properties.items():
        check_client_properties({key: value}, where=where if isinstance(where, str) else where(key))
    return f"{len(properties)} client properties are known and valid"


def _secrets(client: ClusterClient) -> str:
    resolved = client.consumer_config()
    check_client(client.cluster, resolved)
    return f"its configuration and secrets can be resolved; servers {resolved['bootstrap.servers']}"


def _function(path: str, source: str) -> str:
    load_function(path, source)
    return f"{path} can be imported"


def _class(path: str, expected: type) -> str:
    load_class(path, expected)
    return f"{path} is a {expected.__name__}"


def _checked(check: str, run_check: Callable[[], str]) -> Finding:
    try:
        return Finding(check, run_check())
    except DynamicKafkaError as error:
        return Finding(check, str(error), error)


# -- connections ------------------------------------------------------------------------------------------


def connect(options: SourceOptions, subscription: Subscription) -> Iterator[tuple[str, str | DynamicKafkaError]]:
    """Ask all clusters at once, wait for all, and yield for each {cluster: what works, or the error}."""
    probes = ClusterProbes(options)
    try:
        made, broken = probes.for_subscription(subscription)
        pending = {
            cluster: probe.observe(partial(request_of, options, subscription, cluster))
            for cluster, probe in made.items()
        }
        with announced_waits(pending):
            answers, failures = collect_observations(pending, timeout_s=None)
        for cluster in subscription.clusters:
            failed = {**broken, **failures}.get(cluster)
            if failed is not None:
                yield cluster, with_choices(failed, [cluster], options, subscription)
                continue
            rights = partial(_rights, options=options, subscription=subscription, cluster=cluster)
            checked = made[cluster].ask(partial(rights, answer=answers[cluster]))
            try:
                yield cluster, str(checked.result())
            except DynamicKafkaError as error:
                yield cluster, error
    finally:
        probes.close()


def _rights(
    admin: ClusterAdmin, *, options: SourceOptions, subscription: Subscription, cluster: str, answer: ClusterObservation
) -> str:
    """Return what works. Raises ClusterError or OptionError for a topic that is missing or must not be read."""
    if options.own_topics is not None:
        own = options.own_topics.at_home_in(subscription)
        own.refuse(cluster, answer.topics, answer.kafka_id, partial(home_id_of, options))
    refuse_missing(subscription, cluster, answer)
    if denied := admin.unreadable(answer.topics):
        raise ClusterError(cluster, f"its log-in may not read {first_few(denied)}: it needs the right READ")
    parts = [f"answers, and accepts the log-in; topics that can be read: {first_few(answer.topics) or 'none yet'}"]
    partitions = [(topic, p) for topic, seen in answer.topics.items() for p in seen.latest]
    if options.commit_offsets and options.group_id is not None:
        admin.committed(options.group_id, partitions[:1])
        parts.append(f"group {options.group_id} can be seen (the right to commit to it is not checked)")
    return "; ".join(parts)
