"""Decoding reports that speak of a person's whole set: seed pools, and padding and sampling."""
