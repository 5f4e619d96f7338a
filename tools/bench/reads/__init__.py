"""Tasks on existing stores: read, query, verify, recover."""
