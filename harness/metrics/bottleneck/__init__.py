"""Metrics of the bottleneck towards the clients while flows share it: its queue, its rate, its drops.

One file each; `shared` is what they share.
"""
