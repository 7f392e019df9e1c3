"""Whole attempts against a cluster in memory, a scripted agent and fake time."""
