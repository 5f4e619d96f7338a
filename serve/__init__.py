"""Stores behind RocketMQ's own protocols, gRPC and remoting, for their unmodified official clients.

Translation only: what messages, groups and transactions mean is in produce/, consume/ and engine/. The files of the
folder itself are the program and the server. Which room inside imports from which:

    remoting -> calls, brokers, metrics, http2, access
    page -> calls, brokers
    client -> calls
    calls -> brokers, http2, access
    brokers -> metrics
    metrics -> nothing
    http2 -> nothing
    access -> nothing
"""
