"""Applications: one folder each (topology.yaml + app.py), one generic chart for all. Imports sregym.api only."""
