"""How far capture and views are behind the source: measured, judged, and kept for whoever asks."""
