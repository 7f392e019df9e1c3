"""The commands. The only package that prints: renders events and progress, turns errors into messages."""
