"""What has to wake somebody: the alarms, the rules that fire them, and messages about them."""
