"""Pictures and views for the environments, made of photographs, and downloads of these."""
