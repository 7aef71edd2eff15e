"""A proxy before an API server, through which a test refuses a call or breaks a watch.

All other answers are the real server's. The proxy adds two answers that a real one gives too rarely for a test: 429
under load, and 410 when a watch is older than the server's history.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit

import urllib3

from tests.support.certificates import CertificateAuthority
from tests.support.https_server import HttpsServer
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.kubeconfig import Kubeconfig, read_own

_HOP = {"connection", "transfer-encoding", "content-length", "host", "accept-encoding", "keep-alive"}
_SECONDS = 60.0


@dataclass(frozen=True)
class Call:
    """A request that came, and when (monotonic seconds)."""

    method: str
    path: str
    status: int
    at_s: float


@dataclass(eq=False)
class _Watch:
    path: str
    labels: str
    send: Callable[[bytes], None]
    upstream: urllib3.BaseHTTPResponse
    lock: threading.Lock = field(default_factory=threading.Lock)


class FrontDoor:
    """A proxy on 127.0.0.1 with a certificate of its own; a caller is authenticated by its token.

    Attributes:
        refuse: called before each call except watches; returns the seconds of `Retry-After`, or None to let it through.
        calls: the answered calls, without watches. A test that has seen an effect in the server asks `settled` instead:
            the server may show an object before the call that wrote it has returned here.
    """

    def __init__(self, cluster: KubeCluster) -> None:
        self._cluster = cluster
        self._folder = cluster.folder / "data" / f"door-{time.monotonic_ns()}"
        self._authority = CertificateAuthority(self._folder)
        self._server = HttpsServer(self._authority.issue(self._folder / "server.pem"), self._forward)
        target = urlsplit(cluster.api.config.server)
        self._pool = urllib3.HTTPSConnectionPool(
            str(target.hostname),
            target.port,
            ssl_context=ssl.create_default_context(cadata=cluster.api.config.authority),
            maxsize=16,
            retries=False,
        )
        self._changed = threading.Condition()
        self._watches: set[_Watch] = set()
        self._muted: set[str] = set()
        self.refuse: Callable[[str, str], int | None] = lambda method, path: None
        self.calls: list[Call] = []
        self._under_way: set[object] = set()

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        for watch in list(self._watches):
            _cut(watch)

    def kubeconfig(self, given: Path) -> Path:
        """Return the same user's configuration, through this proxy."""
        own = read_own(given, self._cluster.folder)
        assert own.token, "a certificate does not get through: it proves nothing to the server behind"
        server = f"https://127.0.0.1:{self._server.port}"
        config = Kubeconfig(server, self._authority.certificate_file.read_text(), token=own.token)
        return config.write(self._folder / "kubeconfig")

    def mute(self, plural: str) -> None:
        """Hold back all events of watches of this kind from now on."""
        self._muted.add(plural)

    def expire(self, plural: str) -> int:
        """End the watches of this kind as an API server does that has forgotten where they stand. How many."""
        self._muted.discard(plural)
        status = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}
        line = json.dumps({"type": "ERROR", "object": {**status, "message": "too old resource version"}}) + "\n"
        with self._changed:
            watches = [open_watch for open_watch in self._watches if _is_of(open_watch, plural)]
        for watch in watches:
            with watch.lock:
                watch.send(line.encode())
            _cut(watch)
        return len(watches)

    def wait_watched(self, plural: str, timeout_s: float = 30) -> None:
        """Wait until a watch of this kind is open."""
        with self._changed:
            watched = self._changed.wait_for(lambda: any(_is_of(watch, plural) for watch in self._watches), timeout_s)
        assert watched, f"nobody watches {plural} after {timeout_s:g} s"

    def selectors(self, plural: str) -> set[str]:
        """By which labels the watches of this kind that are open choose; "": by none."""
        with self._changed:
            return {watch.labels for watch in self._watches if _is_of(watch, plural)}

    def wait(self, done: Callable[[list[Call]], bool], what: str, timeout_s: float = 30) -> None:
        """Wait until the calls that came are as they should be."""
        with self._changed:
            assert self._changed.wait_for(lambda: done(self.calls), timeout_s), f"waited {timeout_s:g} s for {what}"

    def settled(self, timeout_s: float = 30) -> list[Call]:
        """Wait for the calls that have begun, and return all calls so far."""
        with self._changed:
            begun = frozenset(self._under_way)
            ended = self._changed.wait_for(lambda: begun.isdisjoint(self._under_way), timeout_s)
            assert ended, f"a call is still under way after {timeout_s:g} s"
            return list(self.calls)

    def _note(self, method: str, path: str, status: int) -> None:
        with self._changed:
            self.calls.append(Call(method, path, status, time.monotonic()))
            self._changed.notify_all()

    def _forward(self, handler: BaseHTTPRequestHandler) -> None:
        method, target = handler.command, handler.path
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0))) or None
        headers = {key: value for key, value in handler.headers.items() if key.lower() not in _HOP}
        watching = query.get("watch", ["false"])[0] in ("true", "1")
        if watching:
            answer = self._ask(method, target, body, headers)
            if answer.status == 200:
                self._stream(handler, path, query.get("labelSelector", [""])[0], answer)
            else:
                self._pass_on(handler, answer)
            return
        with self._begun():
            wait = self.refuse(method, path)
            if wait is not None:
                text = json.dumps({"kind": "Status", "reason": "TooManyRequests", "message": "later", "code": 429})
                _answer(handler, 429, {"Content-Type": "application/json", "Retry-After": str(wait)}, text.encode())
                self._note(method, path, 429)
                return
            answer = self._ask(method, target, body, headers)
            self._pass_on(handler, answer)
            self._note(method, path, answer.status)

    @contextmanager
    def _begun(self) -> Iterator[None]:
        call = object()
        with self._changed:
            self._under_way.add(call)
        try:
            yield
        finally:
            with self._changed:
                self._under_way.discard(call)
                self._changed.notify_all()

    def _ask(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        return self._pool.request(
            method, target, body=body, headers=headers, timeout=_SECONDS * 10, preload_content=False, redirect=False
        )

    @staticmethod
    def _pass_on(handler: BaseHTTPRequestHandler, answer: urllib3.BaseHTTPResponse) -> None:
        kept = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP}
        _answer(handler, answer.status, kept, answer.read(decode_content=False))
        answer.release_conn()

    def _stream(
        self, handler: BaseHTTPRequestHandler, path: str, labels: str, answer: urllib3.BaseHTTPResponse
    ) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True
        watch = _Watch(path, labels, lambda data: _send(handler, data), answer)
        with self._changed:
            self._watches.add(watch)
            self._changed.notify_all()
        try:
            for line in answer:
                if not any(_is_of(watch, plural) for plural in self._muted):
                    with watch.lock:
                        watch.send(line)
        except (OSError, ValueError, AttributeError, urllib3.exceptions.HTTPError):
            return  # cut by us, or either end has gone
        finally:
            with self._changed:
                self._watches.discard(watch)
            answer.close()


def _answer(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
    handler.send_response(status)
    for key, value in headers.items():
        handler.send_header(key, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    _send(handler, body)


def _send(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(data)
    handler.wfile.flush()


def _is_of(watch: _Watch, plural: str) -> bool:
    return watch.path.endswith(f"/{plural}")


def _cut(watch: _Watch) -> None:
    watch.upstream.shutdown()
