"""The HTTP service under load: latency, throughput, start, memory of workers, replaced models, kill -9."""
