"""Search of label vectors: latency and recall beside faiss."""
