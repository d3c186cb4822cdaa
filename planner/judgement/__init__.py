"""What an expert would not sign without a word said."""
