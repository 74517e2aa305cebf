"""What is run: plans, worker processes, stored runs, comparisons."""
