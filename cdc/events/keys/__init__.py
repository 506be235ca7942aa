"""Keys of events: what they hold exactly."""
