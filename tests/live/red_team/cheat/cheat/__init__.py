"""A scripted cheat. Every attempt ends as `refused`, `harmless`, `SUCCEEDED`, or `broken` (it was not really tried)."""
