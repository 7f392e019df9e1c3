"""One kubectl command: what is understood of it, and what is refused.

What is refused would need a terminal, a file of this machine, another identity or another server; everything else is
for the API server to judge, which knows the agent's rights. Each refusal says what to do instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sregym.gateway.mcp.words import NotOneCommand, split

EXAMPLE = "kubectl get pods -n shop -o wide"
FOLLOW_S = 15.0
"""How long a command that would go on for ever may go on: `logs -f`, `get -w`."""


class Refused(ValueError):
    """The command is not run; says why and what to do instead."""


class Effect(Enum):
    """What a command does to the cluster, as far as its undo is concerned."""

    READS = "reads"
    CHANGES = "changes objects that a dry run names"
    CHANGES_NAMED = "changes objects that its own arguments name"
    DELETES = "deletes"
    CANNOT_BE_UNDONE = "has effects that are no objects"


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command, allowed. `argv` comes after `kubectl`."""

    argv: tuple[str, ...]
    verb: tuple[str, ...]
    """One or two words: `scale`, `rollout undo`."""
    effect: Effect
    stdin: str = ""
    endless: bool = False
    has_dry_run: bool = False
    warning: str = ""
    """Why it cannot be undone, or not wholly."""

    @property
    def name(self) -> str:
        return " ".join(self.verb)


_READS = Effect.READS
_CHANGES = Effect.CHANGES
_NAMED = Effect.CHANGES_NAMED
_NO_UNDO = Effect.CANNOT_BE_UNDONE
_EFFECTS: dict[str, Effect] = {
    **dict.fromkeys(
        ("get", "describe", "logs", "top", "explain", "api-resources", "api-versions", "version", "cluster-info"),
        _READS,
    ),
    **dict.fromkeys(("events", "wait", "auth can-i", "auth whoami", "rollout status", "rollout history"), _READS),
    "apply view-last-applied": _READS,
    **dict.fromkeys(("create", "apply", "patch", "scale", "label", "annotate", "replace"), _CHANGES),
    **dict.fromkeys(("expose", "autoscale", "run"), _CHANGES),
    **{f"set {what}": _CHANGES for what in ("env", "image", "resources", "selector", "serviceaccount", "subject")},
    "taint": _CHANGES,
    **dict.fromkeys(("rollout undo", "rollout pause", "rollout resume", "cordon", "uncordon", "drain"), _NAMED),
    "delete": Effect.DELETES,
    **dict.fromkeys(("rollout restart", "exec", "debug", "certificate approve", "certificate deny"), _NO_UNDO),
}
_DRY_RUN = frozenset({"rollout undo", "cordon", "uncordon", "drain"})
"""Besides those whose effect is CHANGES or DELETES, which all have one."""
_WARNINGS = {
    "rollout restart": "pods that a restart has replaced do not come back; the specification is as before",
    "exec": "what a command did inside a container is not known here",
    "debug": "debugging containers stay in their pod; delete pods that it made by name",
    "certificate approve": "a certificate that was issued stays valid",
    "certificate deny": "a denial is final",
    "drain": "the node takes pods again after an undo, but pods that were evicted stay where they are now",
}
_GROUPS = frozenset({"rollout", "set", "auth", "certificate", "cluster-info"})
_REFUSED_VERBS = {
    "edit": "an editor needs a terminal; use `kubectl patch` or `kubectl apply -f - <<EOF`",
    "attach": "it needs a terminal; use `kubectl logs` or `kubectl exec`",
    "port-forward": "ports of this server are out of your reach; use `kubectl exec POD -- curl ...`, or kubectl itself",
    "proxy": "ports of this server are out of your reach; use `kubectl get` with -o json",
    "cp": "there are no files here; use `kubectl exec POD -- cat FILE`",
    "diff": "it needs local files; use `kubectl apply --dry-run=server -f - <<EOF`",
    "kustomize": "there are no files here; give the manifest behind -f - <<EOF",
    "config": "there is one cluster and one user here; name a namespace with -n",
    "plugin": "there are no plugins here",
    "completion": "there is no shell here",
    "alpha": "it is not available here",
    "create token": "tokens are not handed out here",
    "auth reconcile": "use `kubectl apply -f - <<EOF`",
    "cluster-info dump": "it is too much for one answer; get what you need by kind and namespace",
    "apply edit-last-applied": "an editor needs a terminal; use `kubectl annotate`",
    "apply set-last-applied": "use `kubectl annotate`",
}
_OTHER_IDENTITY = "who you are and which cluster you talk to cannot be chosen here"
_NO_FILES = "there are no files here; give the content behind `-f - <<EOF`, or in the command itself"
_NO_TERMINAL = "there is no terminal here; run one command and read its output, e.g. `kubectl exec POD -- COMMAND`"
_REFUSED_FLAGS = {
    **dict.fromkeys(
        (
            *("kubeconfig", "server", "token", "as", "as-group", "as-uid", "as-user-extra", "context", "cluster"),
            *("user", "username", "password", "client-certificate", "client-key", "certificate-authority"),
            *("insecure-skip-tls-verify", "tls-server-name", "kuberc"),
        ),
        _OTHER_IDENTITY,
    ),
    **dict.fromkeys(
        (
            *("from-file", "from-env-file", "env-file", "patch-file", "kustomize", "cert", "key", "cache-dir"),
            *("profile", "profile-output", "output-directory", "custom"),
        ),
        _NO_FILES,
    ),
    **dict.fromkeys(("stdin", "tty", "attach", "rm", "edit", "interactive", "it"), _NO_TERMINAL),
    "raw": "ask for objects by kind and name, with -o json",
    "prune": "delete what is to go by its name",
    "prune-allowlist": "delete what is to go by its name",
}
_SHORT_VALUES = frozenset("nolcskLvp")
_FOLLOW = ("follow", "watch", "watch-only")
_MAY_FOLLOW = ("get", "logs", "events")


def parse(text: str) -> Command:
    """Raises Refused."""
    try:
        words = split(text)
    except NotOneCommand as error:
        raise Refused(str(error)) from None
    if not words.argv or words.argv[0] != "kubectl":
        raise Refused("the command must begin with `kubectl`")
    argv = words.argv[1:]
    at = _verb_at(argv)
    verb = _verb(argv[at:])
    if (name := " ".join(verb)) in _REFUSED_VERBS:
        raise Refused(f"`kubectl {name}`: {_REFUSED_VERBS[name]}")
    if name not in _EFFECTS:
        raise Refused(f"there is no `kubectl {name}` here")
    return _command(argv, verb, words.stdin)


def _command(argv: tuple[str, ...], verb: tuple[str, ...], stdin: str) -> Command:
    name = " ".join(verb)
    flags = flags_of(argv, verb[0])
    for flag, value in flags:
        _judge(flag, value)
    told = {flag: value for flag, value in flags}
    if "filename" in told and told["filename"] == "-" and not stdin:
        raise Refused("`-f -` reads a document, and there is none; put it behind the command: -f - <<EOF")
    if stdin and not _reads_stdin(told, argv):
        raise Refused("there is a document behind <<, but nothing reads it; add `-f -`")
    effect = _EFFECTS[name]
    if effect is not _READS and _only_looks(told):
        effect = _READS
    return Command(
        argv=argv,
        verb=verb,
        effect=effect,
        stdin=stdin,
        endless=verb[0] in _MAY_FOLLOW and any(told.get(one, "false") != "false" for one in _FOLLOW),
        has_dry_run=effect in (_CHANGES, Effect.DELETES) or (effect is _NAMED and name in _DRY_RUN),
        warning=_WARNINGS.get(name, ""),
    )


def _verb_at(argv: Sequence[str]) -> int:
    """Where the verb stands: only a namespace may come before it."""
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        word = argv[at]
        if word in ("-n", "--namespace"):
            at += 2
        elif word.startswith(("--namespace=", "-n")):
            at += 1
        elif word in ("-h", "--help"):
            raise Refused("say which command you need help with: `kubectl COMMAND --help`")
        else:
            _judge_word(word)
            raise Refused(f"put {word} behind the verb")
    if at >= len(argv):
        raise Refused("the command has no verb")
    return at


def _verb(words: Sequence[str]) -> tuple[str, ...]:
    first = words[0]
    second = next(iter(without_flags(words[1:], valued=_NAMESPACE, switches=frozenset())), "")
    both = f"{first} {second}"
    if both in _EFFECTS or both in _REFUSED_VERBS:
        return (first, second)
    if first in _GROUPS and second and not second.startswith("-"):
        raise Refused(f"there is no `kubectl {both}` here")
    return (first,)


def flags_of(argv: Sequence[str], verb: str) -> list[tuple[str, str]]:
    """All flags before `--` by their long names, with their values; `true` where a switch is just named.

    Whether a long flag takes the next word is not known here; that word is then no flag and is passed by.
    """
    found: list[tuple[str, str]] = []
    words = list(argv[: argv.index("--")] if "--" in argv else argv)
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            found.append((name, value if equals else _value_behind(name, following)))
        elif len(word) > 1 and word.startswith("-"):
            found += _short(word[1:], following, verb)
    return found


_NAMESPACE = frozenset({"n", "namespace"})
_LONG_VALUES = frozenset({"filename", "output", "namespace", "dry-run", "template"})
_SHORT_NAMES = {
    **{"n": "namespace", "o": "output", "f": "filename", "l": "selector", "c": "container", "s": "server"},
    **{"k": "kustomize", "i": "stdin", "t": "tty", "w": "watch", "A": "all-namespaces", "q": "quiet"},
}


def _value_behind(name: str, following: str) -> str:
    return following if name in _LONG_VALUES - {"dry-run"} else "true"


def _short(letters: str, following: str, verb: str) -> list[tuple[str, str]]:
    """`-it`, `-nshop`, `-o json`: letters are switches until one takes what is left, or the next word."""
    found: list[tuple[str, str]] = []
    for at, letter in enumerate(letters):
        if letter == "f" and verb == "logs":
            found.append(("follow", "true"))
        elif letter == "p" and verb == "logs":
            found.append(("previous", "true"))
        elif letter in _SHORT_VALUES or letter == "f":
            rest = letters[at + 1 :].removeprefix("=")
            found.append((_SHORT_NAMES.get(letter, letter), rest or following))
            break
        else:
            found.append((_SHORT_NAMES.get(letter, letter), "true"))
    return found


def _judge(flag: str, value: str) -> None:
    if flag in _REFUSED_FLAGS and value != "false":
        raise Refused(f"--{flag}: {_REFUSED_FLAGS[flag]}")
    if flag == "filename" and value != "-":
        raise Refused(f"-f {value[:60]}: {_NO_FILES}")
    if flag == "output" and "file" in value.partition("=")[0]:
        raise Refused(f"-o {value.partition('=')[0]}: {_NO_FILES}")


def _judge_word(word: str) -> None:
    for flag, value in flags_of([word], ""):
        _judge(flag, value)


def _reads_stdin(told: dict[str, str], argv: Sequence[str]) -> bool:
    return told.get("filename") == "-" or (argv[-1:] == ("-",))


def _only_looks(told: dict[str, str]) -> bool:
    """Dry runs that were asked for, lists, local renderings and help change nothing."""
    return (
        told.get("dry-run") in ("server", "client", "true")
        or any(told.get(flag) == "true" for flag in ("list", "local", "help"))
        or told.get("h") == "true"
    )


def without_flags(argv: Sequence[str], *, valued: frozenset[str], switches: frozenset[str] = frozenset()) -> list[str]:
    """The arguments without some flags: `valued` ones with their values. Short ones are named with one letter."""
    kept: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--":
            return [*kept, word, *words]
        name = word.lstrip("-").partition("=")[0] if word.startswith("-") else ""
        if word.startswith("--"):
            if name in valued:
                if "=" not in word:
                    next(words, None)
                continue
            if name in switches:
                continue
        elif name and name[0] in valued and len(name[0]) == 1:
            if len(word) == 2:
                next(words, None)
            continue
        kept.append(word)
    return kept


def with_flags(command: Command, *flags: str) -> Command:
    """The command with flags added where flags end."""
    argv = list(command.argv)
    at = argv.index("--") if "--" in argv else len(argv)
    return replace(command, argv=(*argv[:at], *flags, *argv[at:]))
