"""What a ledger hands out: proofs, statements and redacted copies, and the checks a receiver makes offline."""
