"""The collector: a service that takes reports in, loses none, counts none twice, and answers queries.

::

    wire       a request's bytes to reports, and what no honest client could send
    writer     one thread, one transaction for all reports that wait: group commit
    store/     collections, the log of packed segments, counts, ids: SQLite or PostgreSQL
    keeper     closes epochs, seals them as Parquet segments, lets them expire
    answers    estimates, queries and matrices from the live counts
    app        the routes; serve: the process
"""
