"""`kubectl kafkastream`: the fleet as a tree, the effect of manifests before an apply, and releases of what drains.

It runs where a user's kubectl runs, and makes every call by that. Only `release` writes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pydantic import ValidationError

from dynamic_kafka.contract.kubernetes_names import METADATA_ROLE, ROLE_LABEL
from dynamic_kafka.options.command_line import parse_flags
from dynamic_kafka.wording import counted, first_few
from kafkastream_operator.core.fleet_tree import tree
from kafkastream_operator.core.preview import Preview, Reach, changed_streams, is_concerned, preview
from kafkastream_operator.core.release import draining_in, noted_release, with_releases
from kafkastream_operator.core.rollout.step import DEFAULT_TIMING
from kafkastream_operator.core.view import View
from kafkastream_operator.handlers.subscription_view import catalog_of, observe_subscription, status_of
from kafkastream_operator.kube.api import APPLICATIONS, CONFIG_MAPS, PODS, STREAMS, SUBSCRIPTIONS, Resource
from kafkastream_operator.kube.cache import Cache
from kafkastream_operator.models.fields import moment

NOTHING, FAILED, CHANGES, HELD = range(4)
"""The exit codes: `plan` returns `CHANGES` and `HELD`, too."""
_RELEVANT: Mapping[Resource, str] = {
    STREAMS: "",
    SUBSCRIPTIONS: "",
    CONFIG_MAPS: ROLE_LABEL,
    PODS: "spark-role=driver",
    **dict.fromkeys(APPLICATIONS.values(), ""),
}
"""The objects of a namespace that a plan reads: {kind: label selector}."""
_WORDS: Mapping[Reach, str] = {"Nothing": "unchanged", "Live": "live", "Restart": "restart", "AtStart": "at its start"}
Json = dict[str, Any]


class KubectlError(Exception):
    """A refusal of kubectl, or of the API server behind it."""


class Kubectl:
    """The kubectl on the path, with the user's choice of a context and a namespace."""

    def __init__(self, flags: Sequence[str]) -> None:
        self._command = ["kubectl", *flags]

    def run(self, *words: str, stdin: str | None = None) -> str:
        """Run it, and return its output.

        Raises:
            KubectlError: with its message.
        """
        try:
            done = subprocess.run([*self._command, *words], input=stdin, capture_output=True, text=True, check=False)
        except OSError as error:
            raise KubectlError(f"kubectl cannot be run: {error}") from None
        if done.returncode:
            raise KubectlError(done.stderr.strip())
        return done.stdout

    def objects(self, *arguments: str, stdin: str | None = None) -> list[Json]:
        """Run it, and return the objects that it prints."""
        answer = json.loads(self.run(*arguments, "-o", "json", stdin=stdin))
        return list(answer["items"]) if str(answer["kind"]).endswith("List") else [answer]

    def get(self, resource: Resource, *arguments: str) -> list[Json]:
        """Return the objects of a kind; none if it is not installed."""
        try:
            return self.objects("get", resource.full_name, *arguments)
        except KubectlError as error:
            if "doesn't have a resource type" in str(error):
                return []
            raise


def status(kubectl: Kubectl, names: Sequence[str], scope: Sequence[str]) -> list[str]:
    """Return the tree of the streams with these names, or of all."""
    streams = kubectl.get(STREAMS, *scope, *names)
    pods = kubectl.get(PODS, *scope, "-l", "spark-role=driver")
    return tree(streams, kubectl.get(SUBSCRIPTIONS, *scope), pods) or ["no KafkaStream here"]


def release(kubectl: Kubectl, stream: str, topic: str, reason: str) -> list[str]:
    """Release a topic of a stream, or all topics of a cluster, in each subscription in which it drains.

    The annotation has the time, the user and the reason. The operator takes it into `status.released` and its Event.

    Raises:
        KubectlError: nothing of that name drains.
    """
    draining = [
        (subscription, draining_in(stream, status_of(subscription))) for subscription in kubectl.get(SUBSCRIPTIONS)
    ]
    # By its name alone, a cluster would let go of the topics of other streams, too.
    named = [
        (subscription, [key for key in keys if topic in (key.cluster, str(key))]) for subscription, keys in draining
    ]
    if not any(keys for _, keys in named):
        known = sorted({str(key) for _, keys in draining for key in keys})
        raise KubectlError(f"{topic} of {stream} does not drain; draining now: {first_few(known, 20) or 'nothing'}")
    user, lines = kubectl.objects("auth", "whoami")[0]["status"]["userInfo"]["username"], list[str]()
    note = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {user}: {reason}"
    for subscription, keys in named:
        if entries := [noted_release(str(key), note) for key in keys]:
            meta = subscription["metadata"]
            value = with_releases(meta.get("annotations") or {}, status_of(subscription).released, entries)
            version = f"--resource-version={meta['resourceVersion']}"  # another release at that moment is not lost
            kubectl.run("annotate", "--overwrite", version, f"{SUBSCRIPTIONS.full_name}/{meta['name']}", value)
            lines += [f"{meta['name']}: {entry}" for entry in entries]
    return lines


def plan(kubectl: Kubectl, text: str, apply_flags: Sequence[str] = ()) -> tuple[list[str], int]:
    """Return what an apply of manifests would do to whom, and the exit code.

    The API server completes, merges and checks the manifests in a dry run.
    """
    given = [manifest for manifest in _manifests(yaml.safe_load_all(text)) if _is_ours(manifest)]
    wanted, refusals = _dry_run(kubectl, given, ("apply", "--dry-run=server", *apply_flags, "-f", "-"))
    lines, effects = [f"{name}  refused  {why}" for name, why in refusals.items()], list[Preview]()
    for namespace in sorted({stream["metadata"]["namespace"] for stream in wanted}):
        news = [stream for stream in wanted if stream["metadata"]["namespace"] == namespace]
        problems, named = _effects(kubectl, namespace, news)
        lines += problems
        refusals |= dict.fromkeys(problems, "")
        effects += named.values()
        lines += [_line(f"{namespace}/{name}", effect) for name, effect in sorted(named.items()) if not effect.is_empty]
    reached = [effect.reach for effect in effects]
    drains = f"{sum(bool(effect.drains) for effect in effects)} begin to drain"
    counts = [*(f"{reached.count(reach)} {word}" for reach, word in _WORDS.items()), drains]
    held, refused = (sum(bool(getattr(effect, kind)) for effect in effects) for kind in ("held", "refused"))
    refused += len(refusals)
    lines.append(f"{counted(len(effects), 'application')}: {', '.join(counts)}; {held} held, {refused} refused")
    changes = any(not effect.is_empty for effect in effects)
    return lines, HELD if held or refused else CHANGES if changes else NOTHING


def _effects(kubectl: Kubectl, namespace: str, news: Sequence[Json]) -> tuple[list[str], dict[str, Preview]]:
    """Return the mistakes that only the operator finds, and the effect on each application that is concerned."""
    there = [
        (resource, item)
        for resource, labels in _RELEVANT.items()
        for item in kubectl.get(resource, "-n", namespace, *(("-l", labels) if labels else ()))
    ]
    now, then = Cache(), Cache()
    for resource, item in there:
        now.put(resource, item)
        then.put(resource, item)
    newest = max((int(item["metadata"]["resourceVersion"]) for _, item in there), default=0)
    for stream in news:
        meta = {**stream["metadata"], "resourceVersion": str(newest + 1)}  # a dry run gives a new object none
        then.put(_resource(stream), {**stream, "metadata": meta})
    old, new = catalog_of(now, namespace), catalog_of(then, namespace)
    changed = changed_streams(old, new)
    origins = {f"{stream['kind']} {stream['metadata']['name']}" for stream in news}
    problems = [f"{namespace}/{origin}  refused  {why}" for origin, why in new.broken.items() if origin in origins]
    entries = [stream for stream in new.streams.values() if stream.stream in changed and stream.origin in origins]
    problems += [f"{namespace}/{entry.origin}  refused  {entry.problem}" for entry in entries if entry.problem]
    effects = {}
    for ref in then.refs(SUBSCRIPTIONS):
        before, after = _view(now, namespace, ref.name), _view(then, namespace, ref.name)
        if after is not None and is_concerned(before, after, changed):
            effects[ref.name] = preview(before, after)
    return problems, effects


def _view(cache: Cache, namespace: str, name: str) -> View | None:
    """Return the view of a subscription; None if there is none, or its spec cannot be read, so that nothing happens."""
    try:
        observed = observe_subscription(cache, namespace, name, datetime.now(UTC), DEFAULT_TIMING)
    except ValidationError:
        return None
    if observed is None or observed.view.driver is None or observed.view.driver.report is not None:
        return observed.view if observed is not None else None
    # The operator counts how long a driver is silent by its own clock; here the age of the pod has to do.
    pod = cache.get(PODS, namespace, observed.view.driver.name) or {}
    started = (pod.get("status") or {}).get("startTime")
    silent_s = (observed.view.now - moment(started)).total_seconds() if started else 0.0
    return replace(observed.view, driver=replace(observed.view.driver, silent_s=silent_s))


def _line(name: str, effects: Preview) -> str:
    parts = [name, _WORDS[effects.reach]]
    parts += [f"drains {first_few(effects.drains, 5)}"] if effects.drains else []
    parts += [f"reads {first_few(effects.dropped, 5)} no more"] if effects.dropped else []
    parts += [f"held  {effects.held}"] if effects.held else []
    parts += [f"refused  {effects.refused}"] if effects.refused else []
    return "  ".join(parts)


def _dry_run(kubectl: Kubectl, given: Sequence[Json], command: Sequence[str]) -> tuple[list[Json], dict[str, str]]:
    """Return the objects as the API server would have them, and {object that it refuses: why}."""
    if not given:
        return [], {}
    whole = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(given)})
    try:
        return kubectl.objects(*command, stdin=whole), {}
    except KubectlError as error:
        if len(given) == 1:
            return [], {f"{given[0]['kind']} {given[0]['metadata']['name']}": " ".join(str(error).split())}
    # kubectl prints no object if one is refused.
    accepted, refused = list[Json](), dict[str, str]()
    for document in given:
        one, why = _dry_run(kubectl, [document], command)
        accepted += one
        refused |= why
    return accepted, refused


def _manifests(documents: Iterable[Any]) -> Iterator[Json]:
    for document in documents:
        if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
            yield from _manifests(document.get("items") or ())
        elif isinstance(document, dict) and isinstance(document.get("metadata"), dict):
            yield document


def _is_ours(document: Mapping[str, Any]) -> bool:
    if document.get("kind") == "ConfigMap":
        return (document["metadata"].get("labels") or {}).get(ROLE_LABEL) == METADATA_ROLE
    return document.get("apiVersion") == STREAMS.api_version


def _resource(document: Mapping[str, Any]) -> Resource:
    return {"ConfigMap": CONFIG_MAPS, "KafkaStream": STREAMS}.get(str(document["kind"]), SUBSCRIPTIONS)


class _Parser(argparse.ArgumentParser):
    """A command line whose mistakes end with `FAILED`: 2 is what `plan` returns for changes."""

    def __init__(self, **more: Any) -> None:
        super().__init__(allow_abbrev=False, **more)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"{self.prog}: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="kubectl kafkastream", description="See, plan and release KafkaStreams.")
    shared = _Parser(add_help=False)
    for flags in (("--kubeconfig",), ("--context",), ("--namespace", "-n")):
        shared.add_argument(*flags, metavar="VALUE", help="as for kubectl")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, doc in (("status", "show streams, clusters and jobs"), ("watch", "show that again and again")):
        one = commands.add_parser(name, parents=[shared], help=doc)
        one.add_argument("streams", nargs="*", metavar="STREAM", help="the streams to show (default: all)")
        one.add_argument("--all-namespaces", "-A", action="store_true", help="as for kubectl")
        if name == "watch":
            one.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="(%(default)s)")
    one = commands.add_parser("plan", parents=[shared], help="show what an apply would do to whom")
    one.add_argument("--filename", "-f", required=True, metavar="FILE", help="the manifests; - reads them from stdin")
    one.add_argument("--server-side", action="store_true", help="for a server-side apply")
    one.add_argument("--field-manager", metavar="NAME", help="of the server-side apply")
    one = commands.add_parser("release", parents=[shared], help="let a draining topic go unread")
    one.add_argument("stream", metavar="STREAM")
    one.add_argument("topic", metavar="CLUSTER/TOPIC", help="or CLUSTER, for all its topics that drain")
    one.add_argument("--reason", required=True, help="noted in the status and in the Event, with your name")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit code."""
    given = parse_flags(_parser(), sys.argv[1:] if arguments is None else arguments)
    flags = [f"--{flag}={value}" for flag in ("kubeconfig", "context", "namespace") if (value := getattr(given, flag))]
    kubectl, code = Kubectl(flags), NOTHING
    try:
        if given.command == "plan":
            text = sys.stdin.read() if given.filename == "-" else Path(given.filename).read_text(encoding="utf-8")
            own = ["--server-side", "--force-conflicts"] if given.server_side else []
            own += [f"--field-manager={given.field_manager}"] if given.field_manager else []
            lines, code = plan(kubectl, text, own)
        elif given.command == "release":
            lines = release(kubectl, given.stream, given.topic, given.reason)
        else:
            scope = ["--all-namespaces"] if given.all_namespaces else []
            lines = status(kubectl, given.streams, scope)
            while given.command == "watch":
                print("\033[H\033[2J" if sys.stdout.isatty() else "", *lines, sep="\n", flush=True)
                time.sleep(given.interval)
                lines = status(kubectl, given.streams, scope)
        print(*lines, sep="\n")
    except KeyboardInterrupt:
        return NOTHING
    except (KubectlError, OSError, ValueError, yaml.YAMLError) as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    return code


if __name__ == "__main__":
    sys.exit(main())
