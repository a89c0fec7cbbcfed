"""The work side of the store: claim, commit, lease. Every function here runs inside one transaction of the executor."""
