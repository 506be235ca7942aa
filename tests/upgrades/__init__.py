"""What an earlier version had left, and how it is put in place again for today's code."""
