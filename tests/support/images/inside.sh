#!/usr/bin/env bash
# inside.sh IMAGE UID:GID COMMAND…: run a command in an image, with a read-only root. engine.py starts it in namespaces of
# its own, so that every mount ends with it. $BUILDAH is the command with its store; $WRITABLE lists folders in memory.
set -euo pipefail
image=$1 user=$2
shift 2
container=$($BUILDAH from --pull-never "$image")
trap '$BUILDAH rm "$container" >/dev/null' EXIT
root=$($BUILDAH mount "$container")
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for folder in $WRITABLE; do
    mount -t tmpfs -o mode=1777 tmpfs "$root$folder"
done
mount -o remount,bind,ro "$root"
status=0
setpriv --no-new-privs chroot --userspec="$user" --groups= "$root" "$@" || status=$?
umount --recursive "$root"
exit $status
