"""Repair: mend a store in place from what verify found, carry its intact records into a new one, or seal it.

repairing ──▶ plan ──▶ placeholder
    │                       ▲
    └──▶ backup        salvaging        sealing
                           │
                           └──▶ new_log ◀── new_store: messages that keep their queue offsets
"""
