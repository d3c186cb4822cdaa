"""Readers of logs, one door for all: files in any known format become requests, counts by time, or counters."""
