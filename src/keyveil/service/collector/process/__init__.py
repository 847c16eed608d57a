"""What every part of a collector process shares: refusals, clock, settings, log, metrics."""
