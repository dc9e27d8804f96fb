"""Pictures and pages of labelled clouds, and the picture of the demo.

May import: data. Never torch; matplotlib only where a picture is drawn.
"""
