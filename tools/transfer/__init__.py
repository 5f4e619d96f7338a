"""Messages as lines of JSON: written from a view, and put into a store again."""
