"""Messages on their way out of a store, into files, and into a store again.

sources ──▶ import_messages, replay_messages        export_messages
"""
