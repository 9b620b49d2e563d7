"""What the console shows of providers beside their table: presets, models and further credentials."""
