"""A driver that counts files as they arrive, until it is killed: FOLDER MASTER PLAN INBOX STATE."""

import sys
from pathlib import Path

from spark_cluster import session

import keyveil as kv

folder, master, plan, inbox, state = sys.argv[1:]
spark = session(Path(folder), master)
running = kv.spark.running_tally(inbox, kv.Plan.load(plan), state, session=spark, files_at_once=1)
running.query.awaitTermination()
