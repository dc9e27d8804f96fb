"""Export: a trained network becomes a packed file. Its layers in order, thresholds folded, bytes written.

May import: nn, models, and runtime.reference in `pack` only, to compute the golden vector. (The folder is not called
`export`, because a module of that name would hide the public function `bipointnet.export`.)
"""
