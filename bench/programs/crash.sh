#!/bin/sh
# crash.sh FILE: adds one byte to the file and fails at once.
printf x >> "$1"
exit 1
