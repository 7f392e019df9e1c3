"""What is measured, each as a command that prints one JSON object. Last results stand in RESULTS.md."""
