#!/bin/sh
# Stands for a build: writes the page that web.sh serves.
set -eu
echo "building"
date +"page of %H:%M:%S" > page.txt
