#!/bin/sh
# Options without a program name are memcached's.
set -eu
[ "${1#-}" = "$1" ] || set -- memcached "$@"
exec "$@"
