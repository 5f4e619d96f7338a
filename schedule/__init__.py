"""Messages that wait: RocketMQ's delay levels, and when a parked message is due."""
