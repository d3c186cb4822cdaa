"""Time in a demand file: dates, holdings and scenarios become a case's future; paths and edits of a file's data."""
