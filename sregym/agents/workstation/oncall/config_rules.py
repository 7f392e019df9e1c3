"""Rules about configuration and credentials: keys that siblings have, and logins that are refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

from .findings import LIKELY, SURE, Finding, restart
from .kube import Done, Obj, change, dig, name_of, patch
from .wiring_rules import ADDRESS
from .world import KINDS, World, called, is_ready, texts_of

REFUSED = re.compile(
    r"(?i)authentication failed|authenticationfailed|auth(entication)? error|not authorized|unauthorized|access denied"
    r"|login (was )?refused|could not find user|user .{0,40}(not found|does not exist)|password authentication"
)
QUOTED = re.compile(r"""(?:(\w+)\s*:\s*)?["'](\w+)["']""")
SCRIPTS = "/docker-entrypoint-initdb.d"
MAKES_ACCOUNT = re.compile(r"(?i)createuser|create user|create role")
TAKES_AWAY = re.compile(r"(?i)dropuser|drop user|revoke|dropdatabase|\.remove\(|deletemany")


def keys_unlike_siblings(world: World) -> Iterator[Finding]:
    """A configuration file in which a key is missing, empty or different, while all its siblings agree."""
    families: dict[str, list[tuple[Obj, Obj]]] = {}
    for configmap in world.configmaps:
        for file, text in (configmap.get("data") or {}).items():
            if (value := _as_object(text)) is not None:
                families.setdefault(file, []).append((configmap, value))
    for file, members in families.items():
        if len(members) >= 3:
            yield from _odd_ones(world, file, members)


def login_refused(world: World) -> Iterator[Finding]:
    """A workload whose login is refused by a store that has a script which makes accounts."""
    for workload in world.workloads:
        failing = [pod for pod in world.pods_of(workload) if not is_ready(pod) or _restarted(pod)]
        refused = [line for pod in failing for line in world.logs_of(pod).splitlines() if REFUSED.search(line)]
        if not refused:
            continue
        for store in _stores_of(world, workload):
            scripts = _account_scripts(world, store)
            yield Finding(
                SURE if scripts else LIKELY,
                f"the database account that {name_of(workload)} uses is missing in {called(store)}: its user was"
                f" dropped, or its password or rights were changed. {_accounts(world, store)}",
                f"logins are refused ({refused[-1][:300]}), {name_of(workload)} crashes and restarts, and requests"
                " fail.",
                partial(_remake_accounts, world, store, workload, scripts),
            )


def _odd_ones(world: World, file: str, members: list[tuple[Obj, Obj]]) -> Iterator[Finding]:
    keys = sorted({key for _, value in members for key in value})
    for key in keys:
        values = Counter(json.dumps(value[key]) for _, value in members if value.get(key) not in (None, ""))
        usual, count = values.most_common(1)[0] if values else ("", 0)
        if count < 2 or count * 3 < len(members) * 2:
            continue
        for configmap, value in members:
            if json.dumps(value.get(key)) == usual:
                continue
            state = "lacks the key" if key not in value else f"has {json.dumps(value[key])} for the key"
            users = [w for w in world.workloads if name_of(configmap) in _configmaps_of(w)]
            named = ", ".join(map(name_of, users)) or "its user"
            yield Finding(
                SURE if not value.get(key) else LIKELY,
                f"ConfigMap {name_of(configmap)} ({file}) {state} {key}: other ConfigMaps have {usual}.",
                f"{named} cannot find what {key} names, fails to start or crashes, and requests fail.",
                partial(_rewrite, configmap, file, {**value, key: json.loads(usual)}, users),
            )


def _rewrite(configmap: Obj, file: str, value: Obj, users: list[Obj]) -> None:
    body = {"data": {file: json.dumps(value, indent=2)}}
    patch("configmaps", name_of(configmap), configmap["metadata"]["namespace"], body, "merge")
    for workload in users:
        restart(workload)


def _remake_accounts(world: World, store: Obj, client: Obj, scripts: list[str]) -> None:
    """Run the scripts again; where the store wants a login for that, with the first account that still works."""
    for script in scripts:
        if not _in_store(store, f"sh {SCRIPTS}/{script}").ok and (login := _login(world, store)):
            with_login = f'mongo() {{ command mongo {login} "$@"; }}; . {SCRIPTS}/{script}'
            _in_store(store, with_login)
    restart(client)


def _login(world: World, store: Obj) -> str:
    """Options of the shell for an account of the store that can log in; empty where none is found."""
    for name in _named_accounts(world, store):
        options = f"-u {name} -p {name} --authenticationDatabase admin"
        if _in_store(store, f"mongo --quiet {options} admin --eval 'db.getName()'").ok:
            return options
    return ""


def _in_store(store: Obj, command: str) -> Done:
    resource = f"{KINDS[store['kind']]}/{name_of(store)}"
    return change("exec", resource, "-n", store["metadata"]["namespace"], "--", "bash", "-c", command)


def _named_accounts(world: World, store: Obj) -> list[str]:
    """Names in the scripts that can be accounts: what is quoted and is no role and no database."""
    mounted = _configmaps_of(store)
    texts = [text for one in world.configmaps if name_of(one) in mounted for text in texts_of(one.get("data"))]
    found = [name for text in texts for key, name in QUOTED.findall(text) if key in ("", "user")]
    return sorted(set(found))


def _account_scripts(world: World, store: Obj) -> list[str]:
    """Names of mounted start-up scripts that make accounts and take nothing away."""
    mounted = _configmaps_of(store)
    found = []
    for configmap in world.configmaps:
        if name_of(configmap) in mounted:
            for file, text in (configmap.get("data") or {}).items():
                if MAKES_ACCOUNT.search(text) and not TAKES_AWAY.search(text):
                    found.append(file)
    return found


def _accounts(world: World, store: Obj) -> str:
    """A sentence about the accounts that there should be."""
    names = _named_accounts(world, store)
    return f"Its scripts make {' and '.join(names)}." if names else ""


def _stores_of(world: World, workload: Obj) -> Iterator[Obj]:
    """Workloads with start-up scripts whose address the workload's own configuration names."""
    name = name_of(workload)
    for other in world.workloads:
        if other is not workload and _account_scripts(world, other) and name in name_of(other).split("-"):
            yield other
            return
    told = [c for c in world.configmaps if name_of(c) in _configmaps_of(workload)]
    named = {host for text in texts_of([told, workload]) for host, _ in ADDRESS.findall(text)}
    for other in world.workloads:
        if name_of(other) in named and _account_scripts(world, other):
            yield other


def _configmaps_of(workload: Obj) -> set[str]:
    volumes = dig(workload, "spec", "template", "spec", "volumes", default=[])
    return {str(dig(volume, "configMap", "name")) for volume in volumes if "configMap" in volume}


def _restarted(pod: Obj) -> bool:
    return any(s.get("restartCount", 0) > 0 for s in dig(pod, "status", "containerStatuses", default=[]))


def _as_object(text: str) -> Obj | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


RULES = (keys_unlike_siblings, login_refused)
