"""Steps of other systems for the same model and devices."""
