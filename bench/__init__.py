"""Speed and accuracy, side by side with the obvious alternatives; never imported by tests.

Linear algebra has one thread, as in a command, because the matrices are small; it must know before NumPy
is imported.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
