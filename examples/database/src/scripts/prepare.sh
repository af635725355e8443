# Makes the data folder, the role and the database; may be repeated. Environment: DATA, NAME (database), ROLE, PASSWORD.
command -v initdb >/dev/null && command -v postgres >/dev/null || {
    echo "PostgreSQL is not installed on this machine" >&2
    exit 127
}
if [ ! -s "$DATA/PG_VERSION" ]; then
    # Made beside its place and moved there when it is complete.
    mkdir -p "${DATA%/*}"
    rm -rf "$DATA" "$DATA.new"
    mkdir -m 700 "$DATA.new"
    [ -z "$as" ] || chown postgres "$DATA.new"
    $as initdb --pgdata="$DATA.new" --username=postgres --auth=trust --encoding=UTF8 --locale=C
    printf 'host all all %s scram-sha-256\n' 127.0.0.1/32 ::1/128 samenet >"$DATA.new/pg_hba.conf"
    mv "$DATA.new" "$DATA"
fi
single() { $as postgres --single -D "$DATA" -c log_min_messages=fatal postgres; }
quoted=$(printf %s "$PASSWORD" | sed "s/'/''/g")
single >/dev/null <<EOF
DO \$\$BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '$ROLE') THEN CREATE ROLE "$ROLE"; END IF; END\$\$
ALTER ROLE "$ROLE" LOGIN PASSWORD '$quoted'
EOF
echo "SELECT 'present' FROM pg_database WHERE datname = '$NAME'" | single | grep -q present ||
    echo "CREATE DATABASE \"$NAME\" OWNER \"$ROLE\"" | single >/dev/null
