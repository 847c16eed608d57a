"""The relay: reports wait for a crowd, are shuffled and sent on in bulk."""
