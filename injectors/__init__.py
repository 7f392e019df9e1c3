"""Reusable faults, by what they touch. Imports sregym.api only; knows no problem and no app."""
