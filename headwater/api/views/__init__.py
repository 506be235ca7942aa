"""What is told of views: waiting until they hold a change, and how late they are."""
