"""What Headwater is measured beside."""
