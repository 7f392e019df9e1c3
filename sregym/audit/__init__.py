"""The leak audit: looks at an incident with an agent's eyes, and says what only we would have left there.

Allowed is what a real change by a colleague leaves: a new revision, a generation, younger pods, a plausible manager.
Forbidden are our names, the vocabulary of faults, the healthy value in an annotation, an object that appears alone or
was made anew, and the one object that differs from its siblings in what it carries.

What belongs here: what is collected (`Evidence`), the rules, and the report. What does not: making incidents, and
deciding what becomes of an attempt (the coordinator).
"""

from sregym.audit.evidence import Evidence, Finding, Text
from sregym.audit.report import AuditReport
from sregym.audit.rules import RULES, examine
from sregym.audit.vocabulary import Vocabulary

__all__ = ["RULES", "AuditReport", "Evidence", "Finding", "Text", "Vocabulary", "examine"]
