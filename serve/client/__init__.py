"""A served store as a Python program uses it over the network: `flightlog.connect`.

connect ──> remote_store ──> remote_subscription ──> remote_message ──> messages      what programs hold
remote_store ──> rpc ──> client_connection                      signatures, what is repeated ──> HTTP/2 and gRPC
all of them ──> client_errors, and the protocol's messages in serve/calls/protocol.py

`connect` and `client_errors` import neither HTTP/2 nor protobuf.
"""
