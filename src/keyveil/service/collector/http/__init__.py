"""The collector over HTTP: routes, access rights, the encoding of requests, the server."""
