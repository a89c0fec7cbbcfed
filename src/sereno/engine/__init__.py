"""PERFORMS one piece of work: look, decide through the core, commit. All drivers end in `perform`."""
