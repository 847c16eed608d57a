"""What an operator does with a store: verify it, back it up, restore it."""
