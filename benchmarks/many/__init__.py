"""Many views of one small shop at once: what ``headwater apply`` costs and how fresh they are."""
