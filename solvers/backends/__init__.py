"""CBC and HiGHS, child processes, and the verification of what they answer."""
