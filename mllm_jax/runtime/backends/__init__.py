"""What clusters tell the processes that they have started."""
