#!/bin/sh
# The browser that pages are tested in: installed on Debian as root; elsewhere one line says what is missing.
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Chromium for the tests of pages (once)"
    export DEBIAN_FRONTEND=noninteractive
    said=$({ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } 2>&1) && exit 0
    echo "$said" | tail -n 3
fi
if [ "$CHOQOLATE_BROWSER" = required ]; then
    echo "No Chromium found, and it is required here. Install the package chromium (on Debian, as root: apt-get install chromium)."
    exit 1
fi
echo "No Chromium found: tests of pages in a browser are left out. Install the package chromium (on Debian, as root: apt-get install chromium)."
