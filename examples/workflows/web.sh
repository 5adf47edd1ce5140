#!/bin/sh
# Stands for a server: says what it serves, then waits.
echo "$* serving $(cat page.txt 2>/dev/null || echo nothing), page"
exec sleep 3600
