"""The plan of a horizon as text, Markdown and CSV: what to sign now, what it leads to, and what is proved."""
