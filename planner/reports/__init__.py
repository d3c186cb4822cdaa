"""Records become text, Markdown, HTML and CSV; nothing else renders."""
