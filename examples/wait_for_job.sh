#!/bin/sh
# Waits for a job from a shell. Needs the playground: python -m sereno.testing.playground 8765
#
# Exit codes: 0 succeeded, 3 failed, 4 a person is asked, 5 a deadline or budget ended the wait, 130 interrupted and still open.
set -u
playground=http://127.0.0.1:8765
settings=$(dirname "$0")/settings.toml

# Somebody submits a job: curl -d '{"script": "failing"}' … in real life. Its status URL is all that we need.
job=$(python -c "
import json, urllib.request
reply = urllib.request.urlopen('$playground/jobs', data=json.dumps({'script': '${1:-failing}'}).encode())
print(reply.headers['Location'])
") || exit 1

sereno wait generic-status "$playground$job" --config "$settings" \
    --state-path status --pending queued,running --success succeeded --failure failed \
    --deadline 2m --max-requests 20 --max-failures 5 --max-throttles 5
code=$?

case $code in
    0) echo "It succeeded: go on." ;;
    3) echo "It failed: do not go on." ;;
    4) echo "Somebody has to decide: sereno escalation list --config $settings" ;;
    *) echo "No result (exit code $code)." ;;
esac
exit $code
