"""Delivery to users: subscriptions, acknowledgements, redelivery."""
