"""Topics of an open store: queue counts and permissions, creation and deletion, consumer offsets."""
