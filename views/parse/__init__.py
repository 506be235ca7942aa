"""SQL of views: parsed, and checked as far as text alone allows. Pure."""
