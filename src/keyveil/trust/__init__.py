"""What can be checked without trust: fake reports, shuffling, audits of what leaves a device."""
