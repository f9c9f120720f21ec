"""The HTTP API of a load watcher, which Trimaran's plugins fetch, from the windows: ``windward load-watcher``."""
