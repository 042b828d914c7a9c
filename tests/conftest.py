"""For all tests: as long as a busy machine needs, and as many threads as each process was given."""

import os
import sys

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _threads_are_left_as_they_were():
    """Commands set torch's threads for their process, which here goes on with other tests beside other processes."""
    before = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else os.environ.get("OMP_NUM_THREADS")
    yield
    if "torch" in sys.modules and before and sys.modules["torch"].get_num_threads() != int(before):
        sys.modules["torch"].set_num_threads(int(before))
