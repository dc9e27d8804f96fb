"""A trained network becomes a packed file: its layers in order, thresholds folded, bytes written.

May import: nn, models, runtime.reference. (The name `export` is taken by the public function.)
"""
