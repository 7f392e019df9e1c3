#!/bin/bash
# Starts the server; on an empty volume runs /docker-entrypoint-initdb.d/*.sh and *.js first, against a server that
# listens on localhost only and asks for no login.
set -eu

case "${1:-mongod}" in
    -*) set -- mongod "$@" ;;
    mongod) [ $# -gt 0 ] || set -- mongod ;;
    *) exec "$@" ;;
esac

data=/data/db
for argument in "$@"; do
    case "$argument" in
        --dbpath=*) data="${argument#--dbpath=}" ;;
    esac
done
case " $* " in
    *' --bind_ip'*) ;;
    *) set -- "$@" --bind_ip_all ;;
esac

scripts=/docker-entrypoint-initdb.d
unfinished="$data/.initdb"

initialise() {
    # The mark makes an initialisation that was killed half-way start over.
    touch "$unfinished"
    mongod --bind_ip=127.0.0.1 --dbpath="$data" --quiet &
    server=$!
    until (exec 3<>/dev/tcp/127.0.0.1/27017) 2>/dev/null; do
        kill -0 "$server" || { echo "docker-entrypoint: mongod ended during initialisation" >&2; exit 1; }
        sleep 0.05
    done
    for script in "$scripts"/*; do
        case "$script" in
            *.sh) echo "docker-entrypoint: running $script"; bash "$script" ;;
            *.js) echo "docker-entrypoint: running $script"; mongosh --quiet "${MONGO_INITDB_DATABASE:-test}" "$script" ;;
        esac
    done
    kill "$server"
    wait "$server" || true
    rm "$unfinished"
}

[ ! -e "$unfinished" ] || rm -f "$data"/*.sqlite*
if ! compgen -G "$data/*.sqlite" >/dev/null && compgen -G "$scripts/*" >/dev/null; then
    initialise
fi

exec "$@"
