"""Parameters of a link, estimated from measurements; one module per estimated thing."""
