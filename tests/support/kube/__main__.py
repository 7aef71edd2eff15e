"""`python -m tests.support.kube up` and `down` (`make cluster-up`, `make cluster-down`): a cluster to look around in.

The cluster has the resources of the spark-operator, but no controller acts on them. A process of its own, the holder,
runs the cluster, which ends with it. The two commands connect to the holder by a socket in the abstract namespace,
which vanishes with the holder. The holder sends `ready` to each connection, and ends when it receives `end`.
"""

from __future__ import annotations

import hashlib
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress

from tests.support.go import GoUnavailableError
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.errors import KubeError
from tests.support.kube_programs import kubectl, spark_operator_crds
from tests.support.places import BUILD
from tests.support.supervise import last_lines
from tests.support.waiting import wait_until

FOLDER = BUILD / "cluster"
LOG = BUILD / "cluster.log"
_ADDRESS = f"\0dynamic-kafka-cluster-{hashlib.sha256(str(FOLDER).encode()).hexdigest()[:16]}"
_READY, _END = b"ready", b"end"


def up() -> int:
    """Start the cluster unless it is up, wait until it is, and say how to use it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    client = kubectl()  # built here, where its progress is seen
    with _connection() or _new_holder() as holder:
        if _answer(holder) != _READY:
            raise KubeError(f"The cluster did not start; {_log_text()}")
    print("The test cluster is up. To use it:")
    print(f"  export KUBECONFIG={FOLDER / 'data' / 'admin.kubeconfig'}")
    print(f"  {client} get namespaces")
    print(f"Its logs: {FOLDER}. `make cluster-down` ends it and deletes them.")
    return 0


def down() -> int:
    """End the cluster, if there is one, and wait until it is gone."""
    holder = _connection()
    if holder is not None:
        with holder:
            holder.sendall(_END)
            while _answer(holder):
                pass
    shutil.rmtree(FOLDER, ignore_errors=True)
    return 0


def hold() -> int:
    """Run the cluster until a connection sends `end`."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(_ADDRESS)
        server.listen()
        shutil.rmtree(FOLDER, ignore_errors=True)  # of a holder that was killed
        received = b""
        with KubeCluster("cluster", FOLDER) as cluster:
            cluster.start().install_crds(spark_operator_crds())
            while received != _END:
                connection, _ = server.accept()
                with connection:
                    connection.sendall(_READY)
                    received = connection.recv(len(_END))
                    if received == _END:
                        cluster.close()  # the command waits for the end of the connection
    return 0


def _connection() -> socket.socket | None:
    """Return a connection to the holder, if there is one."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(_ADDRESS)
    except ConnectionRefusedError:
        connection.close()
        return None
    return connection


def _new_holder() -> socket.socket:
    """Start a holder, and a connection to it."""
    command = [sys.executable, "-m", "tests.support.kube", "hold"]
    with LOG.open("wb") as log:
        holder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    return wait_until(
        _connection,
        "the process that runs the cluster",
        failed=lambda: None if holder.poll() is None else "it has ended",
        details=_log_text,
        error=KubeError,
    )


def _answer(holder: socket.socket) -> bytes:
    """Wait for the holder's message and return it; return nothing when the holder ends."""
    with suppress(ConnectionError):
        return holder.recv(len(_READY))
    return b""


def _log_text() -> str:
    return f"its log: {LOG}\n{last_lines(LOG)}"


def main() -> int:
    """Do what the one argument says."""
    actions = {"up": up, "down": down, "hold": hold}
    if len(sys.argv) != 2 or sys.argv[1] not in actions:
        print("usage: python -m tests.support.kube up|down", file=sys.stderr)
        return 2
    try:
        return actions[sys.argv[1]]()
    except (KubeError, GoUnavailableError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
