"""Scripts that answer prefill requests from inside another program's environment; they import nothing of ours."""
