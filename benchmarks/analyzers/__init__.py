"""Analyzers: what each way to cut texts into terms is worth."""
