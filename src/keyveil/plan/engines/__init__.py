"""Many people or reports at once: work on segments of the data, anywhere, and add up the results.

``engine`` is the interface: map over segments and add. ``local_pool`` and ``spark_engine`` are behind
it. ``report_files`` and ``privatising`` are the two jobs on files; ``report_segments`` and
``table_segments`` cut files into segments. ``spark_frames`` is for data that Spark itself reads.
"""

from typing import TYPE_CHECKING

from ...foundation.lazy_names import loaded_later

if TYPE_CHECKING:
    from .engine import Engine
    from .local_pool import LocalPool
    from .privatising import Privatised, broken_rows, privatise_files
    from .report_files import tally_files
    from .spark_engine import SparkEngine

__getattr__ = loaded_later(
    __name__,
    {
        "Engine": "engine",
        "LocalPool": "local_pool",
        "Privatised": "privatising",
        "SparkEngine": "spark_engine",
        "broken_rows": "privatising",
        "privatise_files": "privatising",
        "tally_files": "report_files",
    },
)

__all__ = [
    "Engine",
    "LocalPool",
    "Privatised",
    "SparkEngine",
    "broken_rows",
    "privatise_files",
    "tally_files",
]
