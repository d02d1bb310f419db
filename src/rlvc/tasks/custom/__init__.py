"""Custom tasks: environments and data of users."""
