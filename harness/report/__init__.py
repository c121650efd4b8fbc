"""Reports: documents, pages, figures and the site. All of them take the same frozen results."""
