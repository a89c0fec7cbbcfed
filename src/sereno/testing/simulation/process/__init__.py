"""The processes of a world: loop, clocks, database, what befalls them."""
