"""Messages out of a store: from queues, by offset, id, time or key, one by one or as columns."""
