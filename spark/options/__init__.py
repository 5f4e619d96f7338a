"""Options of reads and writes, parsed into frozen objects; the stores, bounds, queues and columns of a query."""
