"""Agents without a model, which anchor every table: oracle, rules, restart, random.

A policy sees what an agent sees (briefing and observations); only the oracle is given the instance.
"""
