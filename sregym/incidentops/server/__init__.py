"""What the outside talks to: the tools, the OpenEnv application, sessions, MCP and the web page.

Only `tools` is imported by the rest of the package; it needs neither OpenEnv nor a web framework.
"""
