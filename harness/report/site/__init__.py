"""A static site of stored results that opens from the file system: models of its pages, and the files they become.

Models are pure functions of `CellResult`; `build` lays them out with the templates beside it and writes the folder.
"""
