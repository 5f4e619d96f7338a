"""RocketMQ's remoting protocol: one port that is the name server and the broker for its clients and its admin tools.

Translation only, as the rest of the server. Which room inside imports from which:

    service, listener, access -> admin, answers, wire
    admin -> answers, wire
    answers -> wire
    wire -> nothing
"""
