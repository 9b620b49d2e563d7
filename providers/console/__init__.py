"""The parts of providers in the console besides their table: presets, models and further credentials."""
