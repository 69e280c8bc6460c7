"""The parts of all pages: markup, charts, and the document around them."""
