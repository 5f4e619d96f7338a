"""The store behind `flightlog serve`, beside RocketMQ's own broker and proxy: one load program for both."""
