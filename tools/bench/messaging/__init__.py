"""From put to listener, through groups and pulls."""
