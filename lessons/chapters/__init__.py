"""The chapters of the course, one folder each."""
