"""The command line: grammar `noun verb`; every command knows --json and --config."""
