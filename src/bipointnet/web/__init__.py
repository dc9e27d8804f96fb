"""The page that runs models in a browser, and the JavaScript package that it uses (package/).

May import: data, errors, files, runtime, shipped, viz.
"""
