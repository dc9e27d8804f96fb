"""Labeled clouds as files, pictures and web pages, and the figure of the demo.

May import: data. Never torch; matplotlib only where a picture is drawn.
"""
