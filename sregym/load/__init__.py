"""The users: a load generator outside the cluster, and its records.

Here: what is asked of the generator (`spec`), how its lines become windows of traffic (`records`), and its container
(`running`). Not here: what a right answer of an application is (its topology says so), and what follows from the
figures (checks and oracles).
"""

from sregym.load.running import users

__all__ = ["users"]
