"""Channels with a computed optimum, and the least error that any channel can reach."""
