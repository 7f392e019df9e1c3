"""The MCP servers: kubectl with undo, metrics, logs, traces, submit, over SSE and streamable HTTP.

Belongs here: what tools take, refuse and answer. Must not be here: rights (the API server's, for the agent's user) and
verdicts. The library behind it takes a second or two to import, so only `servers` imports it, and only when needed.
"""
