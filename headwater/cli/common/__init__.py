"""What verbs share: their context, how they print, how they ask."""
