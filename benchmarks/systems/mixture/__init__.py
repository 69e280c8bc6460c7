"""A moving mixture of media and text: one program that follows it beside held plans."""
