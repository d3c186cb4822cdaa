"""What a cheaper or equal alternative makes needless: dominated recipes and dominated offers."""
