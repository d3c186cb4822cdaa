"""Price files of others, as offers of the catalog."""
