"""A store behind RocketMQ's own protocols, gRPC and remoting, for its unmodified official clients.

Translation only: what messages, groups and transactions mean is in produce/, consume/ and engine/. The files of the
folder itself are the program and the server. Which room inside imports from which:

    remoting -> calls, metrics, http2, access
    page -> calls
    client -> calls
    calls -> http2, access, metrics
    metrics -> nothing
    http2 -> nothing
    access -> nothing
"""
