"""What all pages are made of: markup, charts, and the document around them."""
