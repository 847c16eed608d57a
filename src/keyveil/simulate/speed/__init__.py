"""Speed on this machine, beside plain NumPy, other packages and what the machine allows."""
