"""The stores that are served: each is a broker, which may be lost and come back while the others serve on.

broker        off_loop
"""
