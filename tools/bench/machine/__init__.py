"""What a figure was measured on: the device, the page cache, memory, processes."""
