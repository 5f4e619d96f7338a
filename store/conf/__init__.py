"""What a setting may be, and settings from a RocketMQ broker's own file."""
