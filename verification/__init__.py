"""Source and view compared row by row, exactly, at one LSN, while both go on changing.

A temporary slot exports a snapshot at its consistent point L: it holds what was committed below
L and nothing else. The view's own SQL runs on it, in PostgreSQL. The view is read when it has
applied all that was committed below L. A row of the view whose position is below L must then
equal the source's row; one that was changed at or after L is looked at again at a later L.
"""
