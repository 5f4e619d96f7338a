"""`flightlog serve --ui`: a page for people, rendered here from what the store says of itself.

`page.py` listens, `guard.py` lets in, `site.py` has what every view shares; then there is a file for each view. Views
run beside the event loop, because a store may wait for its disk. Names, keys and bodies are whatever a client sent: the
templates escape all of them, and `shown.py` makes visible what would not be seen.
"""
