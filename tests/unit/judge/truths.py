"""Ground truths in the shape that problems give them, for testing judges without a problem."""

from sregym.api.root_cause import Concept, Role, RootCause
from sregym.cluster.objects import configmap, deployment, service
from sregym.judge import JudgeInput

COMPONENTS = (
    *("frontend", "search", "geo", "rate", "profile", "recommendation", "reservation", "user", "consul", "jaeger"),
    *(f"mongodb-{one}" for one in ("geo", "rate", "profile", "recommendation", "reservation", "user")),
    *("memcached-rate", "memcached-profile", "memcached-reserve", "geo-config", "mongo-rate-script"),
)

MISSING_KEY = RootCause(
    components=(configmap("geo-config"),),
    mechanism="ConfigMap geo-config lacks the key GeoMongoAddress, so geo starts with an empty database address.",
    effect="geo cannot reach mongodb-geo and crashes; hotel search fails.",
    mechanism_concepts=(
        Concept(
            "key is missing", r"lacks?|missing|absent|lost|no longer (has|contains)|removed|does not (contain|have)"
        ),
    ),
    value_concepts=(Concept("which key", r"GeoMongoAddress", r"database (address|url)"),),
    effect_concepts=(Concept("geo fails", r"crash|panic|fail|restart|cannot start|500"),),
    victims=("geo", "search", "frontend"),
)
SERVICE_GONE = RootCause(
    components=(service("mongodb-rate"),),
    mechanism="Service mongodb-rate was deleted, so its name does not resolve.",
    effect="rate cannot find its database and crashes; hotel search fails.",
    mechanism_concepts=(
        Concept(
            "Service is gone",
            r"service.*(deleted|missing|gone|removed|does not exist)",
            r"(deleted|removed|no) .*service",
        ),
    ),
    value_concepts=(Concept("which name", r"mongodb-rate"),),
    effect_concepts=(Concept("rate fails", r"crash|panic|fail|error|cannot"),),
    victims=("rate", "search", "frontend"),
)
WRONG_PORT = RootCause(
    components=(service("mongodb-rate"),),
    mechanism="Service mongodb-rate has targetPort 9999, on which no container listens.",
    effect="rate cannot connect to its database.",
    mechanism_concepts=(Concept("wrong target port", r"target ?port", r"forwards? .*port", r"nothing listens"),),
    value_concepts=(Concept("which port", r"9999"),),
    effect_concepts=(Concept("rate fails", r"crash|panic|fail|error|cannot|refused"),),
    victims=("rate", "search", "frontend"),
)
RETRIES = RootCause(
    components=(deployment("search"),),
    mechanism="search gives rate 50 ms and retries 30 times, so that its own retries keep rate overloaded.",
    effect="hotel search stays failed after the burst is over.",
    mechanism_concepts=(Concept("retries amplify", r"retr(y|ies)"),),
    value_concepts=(Concept("short deadline", r"50 ?ms|timeout"),),
    effect_concepts=(Concept("stays failed", r"stays?|persist|keeps?|never recovers"),),
    victims=("rate", "frontend"),
)
BURST = RootCause(
    components=(deployment("rate"),),
    mechanism="A transient burst of requests filled the queue of rate.",
    effect="rate began to reject requests.",
    mechanism_concepts=(Concept("burst", r"burst|spike|surge"),),
    value_concepts=(Concept("queue", r"queue"),),
    effect_concepts=(Concept("rejects", r"reject"),),
    role=Role.TRIGGER,
    rank=2,
)


def ask(submission: str, *causes: RootCause) -> JudgeInput:
    """The question that a submission amounts to, on an app like Hotel Reservation."""
    return JudgeInput(
        root_causes=causes,
        components=COMPONENTS,
        namespace="hotel-reservation",
        app="hotel-reservation",
        submission=submission,
    )
