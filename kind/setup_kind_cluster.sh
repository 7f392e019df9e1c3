#!/bin/sh
# The old name of `main.py cluster up`: makes a kind cluster on this machine.
#   kind/setup_kind_cluster.sh x86|arm [options of cluster up]
# The architecture is a check only: nodes are always of the machine's own.
set -eu

usage() {
	echo "usage: $0 x86|arm [options of main.py cluster up]" >&2
	exit 2
}

[ $# -ge 1 ] || usage
wanted=$1
shift
case "$wanted" in
x86) machines='x86_64 amd64' ;;
arm) machines='aarch64 arm64' ;;
*) usage ;;
esac
machine=$(uname -m)
case " $machines " in
*" $machine "*) ;;
*)
	echo "$0: this machine is $machine, not $wanted" >&2
	exit 2
	;;
esac

cd "$(dirname "$0")/.."
exec scripts/uv run --frozen main.py cluster up "$@"
