"""`spark.readStream`: the offsets of a stream, and the plan of its next batch."""
