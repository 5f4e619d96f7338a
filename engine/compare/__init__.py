"""Compare two stores: comparing ──▶ state_files ──▶ difference"""
