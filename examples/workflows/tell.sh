#!/bin/sh
# Run when web crashes; tell whoever should know.
echo "$HOLDFAST_SERVICE: $HOLDFAST_CAUSE ($HOLDFAST_REASON)" >> told.txt
