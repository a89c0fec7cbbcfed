"""SHOW: what people and programs see. Faces speak to the services alone."""
