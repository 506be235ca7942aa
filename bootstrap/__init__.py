"""New generations of views: a snapshot into a place of its own, the stream, one switch.

``kit`` holds what a build needs, ``build`` its steps, ``switch`` the moment itself, ``keep`` what
becomes of older generations.
"""
