"""Stand-ins that several tests use: servers that play a script, records of what was asked."""
