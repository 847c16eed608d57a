"""What a collector does, without HTTP: it writes reports, seals epochs, answers queries."""
