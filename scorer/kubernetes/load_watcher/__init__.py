"""The HTTP API of a load watcher, which Trimaran's plugins fetch, from Windward's windows: ``windward load-watcher``.

settings  its settings
answer    from a snapshot to the answer, without a server
watcher   reads the windows, keeps the encoded answer, serves it beside the usual pages
metrics   what it counts
"""
