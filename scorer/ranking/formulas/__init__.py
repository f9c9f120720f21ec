"""Formulas that several filters and scores use."""
