"""What goes back: a failed message as a new record in its group's retry topic, or among its dead letters."""
