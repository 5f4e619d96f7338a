"""Delayed messages: RocketMQ's delay levels, and timers on its timer wheel."""
