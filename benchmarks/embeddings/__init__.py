"""GLaS and MNN: accuracy, ablations, and training throughput beside a torch loop."""
