"""Custom tasks: environments or data of the user."""
