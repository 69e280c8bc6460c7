"""Groups of hosts that balance by themselves: their shares, and how uneven they leave a step."""
