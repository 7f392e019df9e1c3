"""What is kept of a run: records, the run's lock, its folder, CSV and totals. Knows no judge, agent or cluster.

What belongs here: shapes of what is written, how it is written safely, and how it is read back and counted. What does
not: deciding a grade (judge, oracles), and showing anything (cli).
"""

from sregym.results.folder import AttemptFolder, RunFolder, RunResults, load_run, new_run_id
from sregym.results.lock import ClusterFacts, CodeVersion, Machine, RunLock, cpu_pressure
from sregym.results.record import (
    AgentFacts,
    AnswerRecord,
    AttemptRecord,
    DiagnosisRecord,
    Grade,
    MitigationRecord,
    ObservationRecord,
    ProblemFacts,
    Status,
    SubmissionRecord,
    Times,
    Usage,
)
from sregym.results.summary import Rate, Summary, summarise

__all__ = [
    "AgentFacts",
    "AnswerRecord",
    "AttemptFolder",
    "AttemptRecord",
    "ClusterFacts",
    "CodeVersion",
    "DiagnosisRecord",
    "Grade",
    "Machine",
    "MitigationRecord",
    "ObservationRecord",
    "ProblemFacts",
    "Rate",
    "RunFolder",
    "RunLock",
    "RunResults",
    "Status",
    "SubmissionRecord",
    "Summary",
    "Times",
    "Usage",
    "cpu_pressure",
    "load_run",
    "new_run_id",
    "summarise",
]
