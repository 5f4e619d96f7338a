"""What `.option(name, value)` may say, and what a query wants as one object: bounds, queues, columns."""
