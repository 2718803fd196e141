"""Reports of a campaign's store as text, JSON and one HTML page."""
