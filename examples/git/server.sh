echo listening on 8000
exec sleep 1000
