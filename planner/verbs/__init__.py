"""What each verb of the command does, as one function that takes paths or objects, prints nothing and returns a result.

`planner` shows these functions under their names; `cli` reads options, calls them, and writes what they return.
"""
