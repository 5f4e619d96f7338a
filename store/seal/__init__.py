"""What a full segment held, one checksum a block; and the seal of the segment that is being filled."""
