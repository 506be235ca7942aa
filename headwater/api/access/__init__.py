"""Who may ask, and what they may see."""
