#!/bin/sh
# ready.sh FIFO NAME: reports "NAME PID" on the FIFO, then idles.
echo "$2 $$" > "$1"
exec sleep 3600
