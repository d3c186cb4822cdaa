"""What-if: changed copies of a case, planned again and put into one table."""
