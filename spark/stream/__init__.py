"""`spark.readStream`: how far a stream has come, and what its next batch reads."""
