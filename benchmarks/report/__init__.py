"""Figures: their units and targets, results, and how they are shown."""
