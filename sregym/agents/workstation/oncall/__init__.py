"""Programs of an on-call workstation. Standard library only; they know the cluster and the desk, nothing else."""
