"""Studies: what one paper, or somebody's own tests, claim, beside what stored runs show.

A study is one folder here: `claims.py` has the source's figures as data, `page.py` a function from stored results to
Markdown, and the folder's `__init__.py` names both in a `STUDY`. `harness.report.studies` finds it; nothing else is
touched. A study builds on `harness` and on no other study.
"""
