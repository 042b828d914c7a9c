"""A running OpenAI-compatible server measured at its client: servers, requests to them, and what was measured."""
