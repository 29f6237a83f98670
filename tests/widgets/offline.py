"""A browser that asks nobody: its options, what counts as this machine, and what to install where it is missing."""

ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --force-color-profile=srgb"
).split()
HOW = "needs a browser: install chromium (Debian: apt-get install chromium) and playwright (pip install playwright)"
LOCAL = ("file:", "data:", "blob:", "about:", "http://127.0.0.1")


def asked_from(context):
    """The list of addresses beyond this machine that pages of this context go on to ask for; none is answered."""
    asked = []

    def guard(route):
        if route.request.url.startswith(LOCAL):
            return route.continue_()
        asked.append(route.request.url)
        return route.abort()

    context.route("**/*", guard)
    return asked
