"""The settings file that `sereno init` writes: every part explained, all examples commented out."""

TEMPLATE = """# sereno.toml: settings of Sereno for this folder. All names: sereno config schema
# The database comes to .sereno/sereno.db beside this file. Durations are written 90s, 15m, 1h30m, 2d.

# zone = "Europe/Madrid"            # for the times that are shown; default: the system's

# What is watched may stand here, or come by `sereno poll add URL`. `sereno up` and `sereno once` read this file at their start.

# [[poll]]
# name = "peps"
# source = { type = "feed", url = "https://peps.python.org/peps.rss" }
# every = "1h"
# when = "change == 'new'"          # CEL; sees change, object, before, poll, now. Default: new or updated
# actions = ["console"]

# [[poll]]
# name = "kettle"
# source = { type = "http", url = "https://example.org/kettle.json" }
# every = "15m"
# when = "object.price < 40.0"      # numbers of JSON are doubles: write 40.0
# on = "state"                      # told once each time it becomes true
# actions = ["mail"]

# Actions that polls may name.

# [actions.mail]
# type = "email"
# host = "smtp.example.org"
# from = "sereno@example.org"
# to = ["me@example.org"]
# username = "sereno"
# password = "mail"                      # the name of a credential

# Secrets are named, never written here; each is sent to one place only.

# [credentials.mail]
# origin = "smtp://smtp.example.org:587"
# value = { env = "SMTP_PASSWORD" }

# [credentials.tracker]
# origin = "https://tracker.example.org"
# value = { file = "/run/secrets/tracker" }

# Private addresses are refused until they are opened here by name.

# [egress]
# allow = ["127.0.0.1:8080", "10.1.0.0/16"]

# Waiting for jobs: how long a question waits for you (silence means stop), and what carries questions and ends.

# [waiting]
# answer_within = "1d"
# actions = ["console"]
"""
