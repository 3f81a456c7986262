"""A soak: the ledger and the command, used for a long time by many, while whatever can go wrong around them does.

`python -m soak charges` lets 32 writers charge while they are killed, their server is restarted, their disk is full, their file is moved
and their clocks are set. Every writer tells a witness what it is about to do and what was done; a referee compares that with the ledger.
"""
