"""The bare verbs: `init`, `up`, `once`, `wait`, `submit`, `apply`, `demo`, `doctor`, `backup`, `restore`."""
