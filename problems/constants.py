"""Constants of the calendar that every price and every load is worked out with."""

HOURS_PER_MONTH = 730.0
