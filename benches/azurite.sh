#!/bin/sh
# Installs the one version of Azurite that the comparison is about, into a folder git ignores.
set -eu
cd "$(dirname "$0")"
mkdir -p cache/azurite
exec npm install --prefix cache/azurite --no-save --no-audit --no-fund --loglevel=error azurite@3.37.0
