"""What is measured once a round, and the rounds."""
