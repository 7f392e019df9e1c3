"""The simulated company: six services, their settings, deploys, metrics, logs and alerts.

Belongs here: what happens in one tick, and nothing about scoring, tools or servers. The world knows no
scenario: it runs *effects* whose conditions look at its own settings and deploys, so any change that removes
the condition is a repair, whoever makes it.
"""
