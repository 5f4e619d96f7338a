"""Writers beside each other, round by round."""
