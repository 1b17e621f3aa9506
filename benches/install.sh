#!/bin/sh
# Installs what the comparison starts and Rust does not build, each in one version, into a folder git
# ignores: Azurite, and the official clients for JavaScript and Python. What cannot be installed is said
# and left out.
set -eu
cd "$(dirname "$0")"

modules() {
    if ! command -v npm >/dev/null; then
        echo "no npm: $2 is left out" >&2
        return
    fi
    mkdir -p "cache/$1"
    # A package file of its own, or npm would look for one in the folders above.
    echo '{ "private": true }' >"cache/$1/package.json"
    npm install --prefix "cache/$1" --no-save --no-audit --no-fund --loglevel=error "$2"
}

modules azurite azurite@3.37.0
modules js @azure/data-tables@13.3.2

if python3 -m venv cache/python; then
    cache/python/bin/pip install --quiet --disable-pip-version-check \
        azure-data-tables==12.7.0 azure-core==1.41.0 aiohttp==3.14.5
else
    echo "no python3 with venv: azure-data-tables is left out" >&2
fi
