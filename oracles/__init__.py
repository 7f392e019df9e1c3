"""Reusable checks and oracles. Imports sregym.api only; knows no problem and no app."""
