#!/bin/sh
echo "ready"
exec sleep 1000
