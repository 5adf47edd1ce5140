#!/bin/sh
# Told of an alert: the whole of it is JSON in $HOLDFAST_ALERT.
echo "$HOLDFAST_EVENT $HOLDFAST_SEVERITY: $HOLDFAST_MESSAGE" >> told.txt
