"""What a view keeps on disk between runs: its generations, their state, who holds them."""
