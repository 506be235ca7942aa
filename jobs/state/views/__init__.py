"""What the state database keeps of views: dirty keys, generations, rows to be written."""
