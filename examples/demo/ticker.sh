# Prints one line a second, for ever.
count=0
while :; do
    count=$((count + 1))
    echo "tick $count"
    sleep "${INTERVAL:-1}"
done
