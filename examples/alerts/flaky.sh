#!/bin/sh
# Works for a moment, then fails.
echo "working"
sleep 0.3
echo "Error: connect ECONNREFUSED 127.0.0.1:5432" >&2
exit 1
