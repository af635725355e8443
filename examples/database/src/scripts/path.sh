# Where systems hide PostgreSQL's programs; the highest version wins.
for folder in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin /opt/homebrew/opt/postgresql*/bin; do
    [ ! -x "$folder/postgres" ] || PATH=$folder:$PATH
done
# PostgreSQL refuses to be root, and must be able to look at the folder it is started in.
as=
[ "$(id -u)" != 0 ] || as="setpriv --reuid=postgres --regid=postgres --init-groups"
cd /
