"""What everything stands on: errors, exact numbers, random words, files, compiled loops."""
