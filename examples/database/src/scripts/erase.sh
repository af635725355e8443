# Removes the data folder; may be repeated. Environment: DATA.
rm -rf "$DATA" "$DATA.new"
