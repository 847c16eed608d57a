"""Speed and accuracy, side by side with the obvious alternatives; never imported by tests."""
