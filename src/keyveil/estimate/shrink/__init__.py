"""Shrinkage: answers that use a prior learned from all keys."""
