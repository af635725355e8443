#!/bin/sh
# Draws the pictures of the console in docs/pictures from a real run: scripts/console_pictures.sh [PROGRAM]
# Needs node, chromium, kubectl, and `npm ci` in crates/console/web.
set -eu
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/debug/homeostat}")
folder=$(mktemp -d)
chmod 755 "$folder"
"$program" up --ephemeral --node --console --listen 127.0.0.1:0 >"$folder/ready" 2>"$folder/log" &
server=$!
trap 'kill $server; rm -rf "$folder"' EXIT
until grep -q console= "$folder/ready" "$folder/log"; do kill -0 $server; sleep 1; done
line=$(cat "$folder/ready" "$folder/log" | grep -m1 console=)
KUBECONFIG=$(printf %s "$line" | sed 's/.*kubeconfig=\([^ ]*\).*/\1/')
export KUBECONFIG
url=$(printf %s "$line" | sed 's/.*console=//')

kubectl create deployment web --image=web --replicas=3 -- sleep 3600
kubectl create deployment crash --image=web -- sh -c 'exit 3'
kubectl create deployment picture --image=nowhere
kubectl create configmap held
kubectl patch configmap held --type=merge -p '{"metadata":{"finalizers":["backup.example.dev/keep"]}}'
kubectl delete configmap held --wait=false
kubectl wait --for=condition=Available deployment/web --timeout=120s
kubectl scale deployment web --replicas=2
for round in 1 2 3 4; do
    kubectl annotate deployment web colour=blue --overwrite --field-manager=painter
    kubectl annotate deployment web colour=red --overwrite --field-manager=decorator
done
# What is in progress counts as stuck after half a minute.
sleep 35
mkdir -p docs/pictures
SMALL=1 node crates/console/web/test/pictures.mjs "$url" docs/pictures now=#/now objects=#/objects \
    object=#/object/apps%2Fdeployments/default/web yaml=#/object/apps%2Fdeployments/default/web=2 time=#/time
