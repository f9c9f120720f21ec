"""Converters from the files of public load traces to days of load.

Each function of `formats` reads one kind of file; `find` identifies them by their content, in this order:

| function   | file                                                            | family     |
|------------|-----------------------------------------------------------------|------------|
| planetlab  | ``.npz`` with ``days``, ``cpu_<day>``, ``machine_<day>``          | planetlab  |
| smd        | ``.npz`` with ``machines``, ``columns``, ``x_<machine>``          | smd        |
| nab        | ``.csv(.gz)`` with ``series,timestamp,value``                     | nab        |
| recorded   | any file that ``windward fleet --recording`` plays               | its name   |

`openb` reads requests with their lives, from a file that a setting names. A recording whose names are
``gcd-<job>_<day>`` (the Google trace of 2011) has its days joined by job.
"""
