"""What a store of campaigns holds, as text, JSON and one HTML page."""
