"""What the servers say of lag, looked at again and again."""
