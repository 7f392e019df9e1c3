#!/bin/sh
# Gives a node image a containerd store that is already unpacked and that all nodes share.
#   share-store.sh STORE ROOT
# STORE holds layers and unpacked snapshots, is written once and mounted read-only into every node. ROOT becomes
# containerd's own folder on a node: its databases, and a link for each thing in STORE. What containerd later adds or
# removes on a node is its own: removing an image removes links. Nodes thus start with nothing to copy or unpack, and
# share the pages of the programs that they run.
set -eu
store=$1
root=$2
content=io.containerd.content.v1.content
snapshots=io.containerd.snapshotter.v1.overlayfs

mkdir -p "$root/$content/blobs/sha256" "$root/$content/ingest" "$root/$snapshots/snapshots" \
	"$root/io.containerd.metadata.v1.bolt"
chmod 700 "$root/$snapshots" "$root/$snapshots/snapshots"
cp "$store/io.containerd.metadata.v1.bolt/meta.db" "$root/io.containerd.metadata.v1.bolt/"
cp "$store/$snapshots/metadata.db" "$root/$snapshots/"

for blob in "$store/$content/blobs/sha256/"*; do
	ln -s "$blob" "$root/$content/blobs/sha256/"
done
for snapshot in "$store/$snapshots/snapshots/"*; do
	own=$root/$snapshots/snapshots/${snapshot##*/}
	mkdir -m 700 "$own"
	ln -s "$snapshot/fs" "$own/fs"
done
