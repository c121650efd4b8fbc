"""A static site of stored results that opens from the file system: models of its pages, and the files made of them.

Models are pure functions of `CellResult`. `build` renders them with the templates beside it, and writes the folder.
"""
