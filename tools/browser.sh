#!/bin/sh
# The browser that pages are tested in: installed on Debian as root; elsewhere one line says what is missing.
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Chromium for the tests of pages (once)"
    export DEBIAN_FRONTEND=noninteractive
    if { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1; then
        exit 0
    fi
fi
echo "No Chromium found: tests of pages in a browser are left out. Install the package chromium (on Debian, as root: apt-get install chromium)."
