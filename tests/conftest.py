"""One thread for every test, set before torch is loaded: spinning threads slow a busy machine."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
