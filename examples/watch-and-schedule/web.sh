#!/bin/sh
# Stands for a server that reads its pages once, when it starts.
echo "serving $(cat pages/index.html)"
while :; do
    date >> pages/access.log
    sleep 1
done
