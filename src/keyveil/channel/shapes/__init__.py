"""The shapes of channels, one file each, and what several of them share."""
