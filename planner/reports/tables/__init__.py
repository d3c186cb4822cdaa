"""Tables: one model, each table defined once, and renderers for text, Markdown, HTML and CSV."""
