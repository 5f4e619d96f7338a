"""The commit log: appends, appends that belong together, the reader, and what is ready before an append comes."""
