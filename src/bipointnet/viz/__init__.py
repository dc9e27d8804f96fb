"""Labeled clouds as files, pictures and web pages, the figure of the demo, and the files of a sweep.

May import: data. Never torch; matplotlib only where a picture is drawn.
"""
