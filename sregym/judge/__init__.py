"""Judges of diagnoses: the checklist, the offline judge, and a judge that asks a model. Nothing here knows a problem.

What belongs here: the questions and the formula, the rules by which a text is read offline, the prompt, and the one
call to a model. What does not: deciding what a run records (results) and when a diagnosis is graded (coordinator).
"""

from sregym.judge.checklist import CHECKLIST, DEFAULT_TAU, Checklist, Dimension, Question, Score
from sregym.judge.choose import DEFAULT_MODEL, OFFLINE, make_judge
from sregym.judge.contract import Answer, AnsweredQuestion, Fingerprint, Judge, JudgeInput, Judgement, JudgeUsage
from sregym.judge.llm import LlmJudge
from sregym.judge.offline import OfflineJudge

__all__ = [
    "CHECKLIST",
    "DEFAULT_MODEL",
    "DEFAULT_TAU",
    "OFFLINE",
    "Answer",
    "AnsweredQuestion",
    "Checklist",
    "Dimension",
    "Fingerprint",
    "Judge",
    "JudgeInput",
    "JudgeUsage",
    "Judgement",
    "LlmJudge",
    "OfflineJudge",
    "Question",
    "Score",
    "make_judge",
]
