# Works for three seconds, then fails.
echo "crasher: all is well"
sleep 3
echo "crasher: out of luck, failing with code 3" >&2
exit 3
