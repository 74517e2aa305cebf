"""Live links: real packets of the operating system's TCP through simulated links and agents."""
