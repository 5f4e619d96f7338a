"""Outcomes in words, tables, plots and files."""
