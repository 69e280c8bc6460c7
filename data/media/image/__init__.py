"""Images: patches of them, and the tiles that large ones are cut into."""
