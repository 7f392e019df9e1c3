"""The only package that talks to Kubernetes, Helm or node shells.

`contract` holds the protocols and records that everything else is written against; `fake` and the real client both
implement them and are held to one contract suite (tests/contract). Nothing here knows an app, a problem or an agent.
"""
