"""Pop: several members and threads receive from one queue, each message for an invisible time.

    receive             check point   →  revive topic, parked by the timer wheel until the messages are due
    ack                 ack           →  revive topic, parked until the same time
    change_invisible    check point with the new time, then an ack of the old one
    ordered             neither: an order info of each queue of a group that is ordered (order_info.py)
    revive              pairs the two where they come out of the wheel; what has no ack goes to the retry topic

Formats and rules are those of RocketMQ 5.3.3 (`PopMessageProcessor`, `AckMessageProcessor`,
`ChangeInvisibleTimeProcessor`, `PopReviveService`), with its in-memory merging switched off, as it is by default there.

The room inside imports formats and names of this one, and no other room:

    revive -> nothing
"""
