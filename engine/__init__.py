"""One store put together: open, put, read, recover, verify, close.

The files of the folder itself are its two faces, `MessageStore` and `ReadOnlyStore`, and what only they need. Which
room inside imports from which:

    backup   -> open
    repair   -> open, verify
    compare  -> nothing
    write    -> delay, services, columns, dispatch, topics
    delay    -> services, open, read
    verify   -> open, topics
    services -> open, dispatch, topics
    open     -> read, dispatch, topics
    read     -> columns, dispatch
    columns  -> nothing
    dispatch -> nothing
    topics   -> nothing
"""
