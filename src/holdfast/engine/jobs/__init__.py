"""Jobs: the queue's workers, one attempt of a job, and jobs that are repeated."""
