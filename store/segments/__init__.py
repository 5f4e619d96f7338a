"""The files of the commit log: one segment, all of them, and which of them readers hold."""
