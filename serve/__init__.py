"""A store behind RocketMQ's gRPC protocol, for its unmodified official clients.

Translation only: what messages, groups and transactions mean is in produce/, consume/ and engine/.

    server ──> listener ──> grpc_connection
       └─────> service ──> routes, clients, sending, receiving, transactions ──> checks, refusals, protocol
                                              receiving ──> long_polls, renewals, message_out
"""
