"""RidgeFill: shorter prefill by predicting late-layer inputs with a ridge regression."""

__version__ = "0.1.0"
