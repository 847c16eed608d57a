"""Shrinkage: answers that borrow from what all keys have in common."""
