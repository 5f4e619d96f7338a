"""What was popped and not acknowledged in time comes again. A room of `pop`, whose formats and names it imports."""
