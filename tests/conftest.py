"""For all tests: examples take as long as a busy machine needs, so that only what they find can fail."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
