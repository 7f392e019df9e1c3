"""The users: a load generator outside the cluster, and its records.

Here: what is asked of the generator (`spec`), how its lines become windows of traffic (`records`), its container beside
a kind cluster (`running`), and its Pod in any other (`inside`). Not here: what a right answer of an application is (its
topology says so), and what follows from the figures (checks and oracles).
"""

from sregym.load.inside import CLIENTS, users_inside
from sregym.load.running import users

__all__ = ["CLIENTS", "users", "users_inside"]
