"""The agent's way to the internet, where it has one: what it may reach, and the proxy that holds it to that.

An agent's network leads to the gateway alone, with internet access or without; so nothing that is reached through here
can be reached in any other way, on every version of Docker.
"""
