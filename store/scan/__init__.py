"""Walking the log frame by frame, and finding intact records behind damage."""
