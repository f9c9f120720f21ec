"""What an instance is expected to use, what it adds to a window (credits), and what a leaver leaves in it (debits).

Both are added up in C, where rows are made (``scorer/ranking/kernel/making.h``).

**Credits**: the load expected of placed instances that the windows do not show yet.

A placed instance is invisible in a one-hour mean for up to an hour. So each reserved or confirmed instance adds its
expected usage to its machine, fading as the window absorbs it. Time is measured to the end of the machine's window and
never to now: while data is late, nothing has been absorbed.

| model               | a mean gets                                                                               |
|---------------------|-------------------------------------------------------------------------------------------|
| window              | expected * (1 - share of the window's filled slots that are later than the start)          |
| trimaran-60s        | all, if placed after the window's end or less than 60 s before it, in whole seconds        |
| koordinator-pending | all, if placed later than one report interval (60 s) before the newest sample; less what   |
|                     | its agent says that it uses, and never below 0                                            |
| none                | nothing                                                                                    |

The other statistics follow the same share (model ``window``) or the same decision. A percentile q gets all until the
share exceeds 1 - q, a maximum all until the first later slot, a standard deviation nothing. A daily peak gets all
unless the instance had started when the peak was: then it is in the peak already. An instance not
confirmed started yet counts in full everywhere (``window``), or by the time of its reservation (the peers' models).

**Measured instances.** A profile with ``learned = true`` replaces the expected usage of an instance that its agent
reports, in the mean by the model ``window``:

    w * measured + (1 - w) * expected        w = a / (a + 10 min), a: for how long it was reported since it started

An instance whose request says what it uses wrongly is then seen within minutes and not within an hour; so is one that
just moved. An explicit ``expected`` stays, and so does memory: a cache fills for hours. On 41 tuning worlds with the
limit of 0.8 (docs/results/tuning.md) hot minutes were 0.61 of the old default's, without it 0.65; where requests
mislead 0.70 for 0.77; with moves of 2 % an hour (9 worlds) 0.46 for 0.51. Half the weight after 5 or 30
minutes gained less.

**Debits**: the load of instances that ended or moved away, which the windows still show.

The counterpart of credits: a window shows an instance by the share of its filled slots in which it ran. That share of
its usage is subtracted, and fades as those slots leave the window:

    debit = used * (share of the slots later than the start - share of the slots later than the end)

``used`` is its measured mean of about half an hour, from the usage by instance, if the last report is of its end. Else
it is its expected usage. The stream app keeps the figures of ended instances for a day, longer than a window shows
them, and every scorer reads the same ones. So the ledger need not store them.

A percentile q loses all as long as that share exceeds 1 - q, a maximum as long as it is above 0. Time is measured to
the end of the machine's window, as for credits: while data is late nothing is forgotten. A standard deviation keeps
its value, and so does a day's peak: an instance that ended may start again the next day.

With its credits the result is never below the usage measured since: the same statistic, with the credits of its own,
over the longest window that began after the last leaver's end. Those credits are smaller: later instances are measured
there. It is never below 0, nor above the measured usage.
"""
