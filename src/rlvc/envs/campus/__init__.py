"""The campus: views of a building at eleven spots."""
