"""Decoding reports about the whole set of a person: seed pools, and padding and sampling."""
