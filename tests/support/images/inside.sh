#!/usr/bin/env bash
# inside.sh IMAGE UID:GID COMMAND…: become a command in an image, with a read-only root. engine.py starts it in namespaces
# of its own: all mounts and processes end with it. $BUILDAH is the command with its store; $WRITABLE lists folders in
# memory. The next command of the store removes the container.
set -euo pipefail
image=$1 user=$2
shift 2
container=$($BUILDAH from --pull-never "$image")
root=$($BUILDAH mount "$container")
printf '127.0.0.1 localhost %s\n' "$(uname -n)" > "$root/etc/hosts" # as an engine does; a JVM looks its host up
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for folder in $WRITABLE; do
    mount -t tmpfs -o mode=1777 tmpfs "$root$folder"
done
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec="$user" --groups= "$root" "$@"
