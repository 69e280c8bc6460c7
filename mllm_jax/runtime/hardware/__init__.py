"""What a process knows of its devices: their peak, and how much of their memory it may take."""
