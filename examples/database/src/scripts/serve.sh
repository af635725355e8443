# Serves the data folder; the arguments are PostgreSQL's own. Ends with 98 when the port is somebody else's, as far as
# that can be seen: where Linux lists its listeners, those on this address or on all. Environment: DATA, POD_IP, PORT.
if cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v ip="$POD_IP" -v port="$(printf %04X "$PORT")" '
    BEGIN { split(ip, part, "."); ours = sprintf("%02X%02X%02X%02X$", part[4], part[3], part[2], part[1]) }
    $4 == "0A" { split($2, local, ":"); if (local[2] == port && (local[1] ~ /^0+$/ || local[1] ~ ours)) taken = 1 }
    END { exit !taken }'
then
    echo "port $PORT is used by another program" >&2
    exit 98
fi
exec $as postgres -D "$DATA" -c listen_addresses="$POD_IP" -c unix_socket_directories= "$@"
