"""The console of `headwater serve`: pages that the server makes of `headwater/pipeline/`."""
