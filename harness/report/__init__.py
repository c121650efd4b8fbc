"""Reports from the same frozen results: documents for terminal, Markdown and JSON, figures, and the site."""
