"""gRPC over HTTP/2, with TLS and without on one port. Knows nothing of messages."""
