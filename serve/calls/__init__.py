"""The calls of RocketMQ's MessagingService, each translated to what the store has for it.

service ──> routes, clients, sending, receiving, transactions       what answers a call
receiving ──> long_polls, kept_messages, message_out                waiting, keeping, showing
service ──> access, http2                                             who may call, and what carries a call
sending, receiving ──> metrics                                        what is counted
all of them ──> context, checks, refusals, protocol, off_loop
"""
