"""SREGym: puts an SRE agent on call for a live, really broken Kubernetes application, and grades it.

This package knows contracts, never content: problems, apps, injectors and oracles live beside it and import
`sregym.api` only. Which package may import which is written in `.importlinter` and explained in ARCHITECTURE.md.
"""
