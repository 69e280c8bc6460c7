"""How a record is understood: fields, turns, keys, what else it may be, and what is advised."""
