# Does it answer? Environment: POD_IP, PORT.
exec pg_isready --quiet --host="$POD_IP" --port="$PORT"
