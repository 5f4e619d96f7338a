"""gRPC over HTTP/2, with TLS and without on one port. Knows nothing of messages.

Which file uses which: listener -> grpc_connection -> frame_reader, header_blocks, call -> frames, limits
"""
