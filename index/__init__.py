"""What is derived from the commit log and can be rebuilt from it: consume queues, the key index, and their dispatch."""
