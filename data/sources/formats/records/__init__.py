"""Which fields of records are read, what else records may be, and what is advised about them."""
