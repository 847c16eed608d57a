"""Many people or reports at once: work on segments of the data, anywhere, and add up the results."""
