# Serves the data folder; the arguments are PostgreSQL's own. Environment: DATA, POD_IP.
exec $as postgres -D "$DATA" -c listen_addresses="$POD_IP" -c unix_socket_directories= "$@"
