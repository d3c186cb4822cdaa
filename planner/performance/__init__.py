"""Memory, latency and throughput of a replica."""
