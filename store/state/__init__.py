"""What a store notes of itself beside the log: progress, checkpoint, geometry, topics, where the log begins."""
