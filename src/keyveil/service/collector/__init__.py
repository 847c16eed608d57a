"""The collector: a service that accepts reports, stores each exactly once, and answers queries.

It has six rooms. Each imports only from itself and from the rooms above it::

    process/      what every part shares: reasons for refusal, clock, settings, log, metrics
    store/        collections, tokens, the report log, counts and ids; SQLite or PostgreSQL
    engine/       the service without HTTP: the writer, the sealing of epochs, the answers
    http/         routes, access rights, the encoding of requests, and the server that runs them
    relay/        a server in front of a collector that mixes reports before it sends them on
    operations/   verification, backup and restore

A report that arrives over HTTP passes ``http.upload_limits``, ``http.batches`` (decoding and the
check that an honest device could have sent it), ``http.reports_route`` and ``engine.writer`` (one
transaction).
"""
