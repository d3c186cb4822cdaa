"""Why a plan is as it is, why there is none, and what each limit and lever is worth."""
