"""Many runs of one function: here, in processes of this machine, or on a Dask cluster.

    with executor_from("processes:4") as executor:
        results = run_jobs(work, jobs, executor, journal=Path("sweep.jsonl"))

Every executor gives the same results. They are written to the journal as they come, so that a sweep that was
interrupted goes on where it stopped.
"""
