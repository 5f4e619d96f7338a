"""Transactions: a message that is visible if and only if its sender commits it, also after a crash.

A half message waits in RocketMQ's half topic, which has no consumers. A commit appends the message to its own topic; an
op message then says that the half message is done. What is left without either is checked: its producer group is asked.

    half_message    the records of half, commit, op and discarded messages, as RocketMQ's broker writes them
    op_batch        which half messages are over with, gathered into op messages
    transactions    the transactions of one open store: begin, commit, roll back
    check_round     one look at the half messages that were left
    transaction     what `Producer.transaction` returns
    checker         what answers for the half messages of a producer group

RocketMQ: `TransactionalMessageServiceImpl`, `TransactionalMessageBridge`, `EndTransactionProcessor`,
`TransactionalOpBatchService`, `DefaultTransactionalMessageCheckListener`.
"""
