"""Families of defects, in the words that engineers use for them.

The offline judge knows from them that a text offers another explanation than the true one, or a list of all there
are. A family that the ground truth itself speaks of is never held against a diagnosis.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

FAMILIES = {
    "ports": r"target ?ports?|(?:wrong|incorrect|mismatched) ports?|port mismatch|container ?port",
    "configuration": r"(?:missing|wrong|absent|bad|broken|invalid) (?:config\w*|keys?|env\w*|settings?)|config ?map",
    "scheduling": r"node ?selectors?|unschedulable|taints?|tolerations?|affinity|cannot be scheduled|FailedScheduling",
    "memory": r"oom\w*|out of memory|memory (?:limits?|pressure)",
    "memory leak": r"memory leaks?|leaks? memory|leaking memory",
    "cpu": r"cpu (?:limits?|throttl\w+|starvation|pressure|stress|exhaustion)|throttl\w+",
    "deleted object": r"(?:was|were|been|got|is) deleted|accidental(?:ly)? delet\w+"
    r"|deleted (?:service|deployment|config ?map|secret)",
    "probes": r"(?:readiness|liveness|startup) ?probes?",
    "credentials": r"(?:wrong|invalid|missing|rotated|expired|bad) (?:passwords?|credentials?)|authentication fail\w+"
    r"|access denied|(?:database |db |mongo\w* )users? (?:was |were |is )?(?:removed|dropped|deleted|missing)",
    "replicas": r"scaled (?:down )?to (?:0|zero)|(?:0|zero|no) replicas"
    r"|replicas?(?: count)?(?: is| was|:| =|=)? ?(?:0|zero)",
    "network": r"network ?polic(?:y|ies)|packet loss|network (?:partition|latency|outage|failure)|firewall",
    "selector": r"(?:wrong|incorrect|mismatched|bad) (?:label )?selectors?"
    r"|selectors? (?:is|are|was|were) (?:wrong|incorrect|mismatched)|selectors? (?:does|do|did)(?: not|n't) match",
    "dns": r"dns|name resolution",
    "name server": r"core ?dns|kube-?dns",
    "image": r"image ?pull\w*|images? (?:cannot|can't|could not|couldn't) be pulled"
    r"|(?:wrong|bad|broken|missing|faulty) (?:image|tag|build)s?",
    "storage": r"disk (?:full|failure|pressure)|volume mount|mount fail\w+|pvcs?|i/o errors?|corrupt\w*|storage",
    "overload": r"overload\w*|retry (?:storm|loop)|retries|thundering herd|queue (?:is )?full"
    r"|traffic (?:spike|burst|surge)",
    "quota": r"(?:resource ?)?quotas?|limit ?ranges?",
    "certificates": r"certificates?|tls",
    "permissions": r"rbac|permissions?|forbidden|roles? (?:was |were |is )?(?:removed|revoked|missing|lost)",
    "node failure": r"node (?:failure|outage|is down|not ?ready)|kubelet",
    "code": r"(?:software |code )?bugs?|deadlocks?|race conditions?|regressions?",
    "admission": r"(?:admission|mutating|validating) ?webhooks?",
}
_PATTERNS = {name: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for name, words in FAMILIES.items()}
_NEGATIVE = re.compile(
    r"\b(?:no|not|never|none|neither|nor|without|unaffected|healthy|normal|fine|ok|instead of|rather than)\b|n't\b",
    re.IGNORECASE,
)


def families_in(texts: Iterable[str]) -> frozenset[str]:
    """The families that any of the texts speaks of."""
    said = list(texts)
    return frozenset(name for name, pattern in _PATTERNS.items() if any(pattern.search(one) for one in said))


def asserted_in(clauses: Iterable[str], *, unless: Iterable[re.Pattern[str]] = ()) -> frozenset[str]:
    """The families that some clause asserts; a clause with a negative in it asserts nothing.

    Words that one of the patterns in `unless` matches are no assertion of a family: the truth says them too.
    """
    known = tuple(unless)
    return frozenset(
        name
        for clause in clauses
        if not _NEGATIVE.search(clause)
        for name, pattern in _PATTERNS.items()
        for said in pattern.finditer(clause)
        if not any(one.search(said.group()) for one in known)
    )
