"""Films of a policy at work."""
