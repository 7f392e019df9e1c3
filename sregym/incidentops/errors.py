"""The errors of this package, drawn in one place.

The package stands alone (no other `sregym` package is imported), so its tree is its own. An agent's
mistake (unknown service, wrong argument) is never an exception that leaves the episode: the episode turns
`ToolError` into an observation.
"""


class IncidentOpsError(Exception):
    """Anything this package raises on purpose."""


class ScenarioError(IncidentOpsError):
    """A scenario file or the topology is wrong. Raised when it is loaded, never in an episode."""


class ToolError(IncidentOpsError):
    """The agent's call cannot be carried out; the text says what would be accepted."""


class UnknownTaskError(IncidentOpsError, LookupError):
    """No such scenario, level or split."""


class EpisodeError(IncidentOpsError):
    """The caller used an episode out of order (step before reset, step after done, no such id)."""


class StoreError(IncidentOpsError):
    """The SQLite file cannot be used: written by another schema version, or not ours."""
