"""Checks for authors of parts: does a detector, a solver, a selector do what rlvc expects of it?"""
