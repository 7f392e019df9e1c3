"""The agents that anchor every table: one folder each, with its `agent.yaml`."""
