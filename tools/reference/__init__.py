"""The reference: its campaign, and the pages and figures that are generated from its runs."""
