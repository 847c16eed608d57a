"""The running service: the client on a device, the collector, the relay between them."""
