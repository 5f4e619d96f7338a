"""Repair: mend a store in place from what verify found, or carry its intact records into a new one.

repairing ──▶ plan ──▶ placeholder
    │                       ▲
    └──▶ backup        salvaging
"""
