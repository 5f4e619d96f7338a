"""How fast Spark answers queries over a store."""
