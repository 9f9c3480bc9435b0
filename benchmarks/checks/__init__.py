"""What checks cost, and what campaigns against them have found."""
