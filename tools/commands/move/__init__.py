"""Commands that carry messages, folders and files in and out of stores, and remove them."""
