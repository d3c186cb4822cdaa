"""A demand file becomes a case: its schema, its loading and its mistakes."""
