"""The running service: the client on a device, the collector, and the relay between them."""
