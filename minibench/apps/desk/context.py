"""What every template of the desk gets to know."""

from django.http import HttpRequest

from minibench.clock import TODAY


def frozen_clock(request: HttpRequest) -> dict[str, int]:
    """The frozen present in milliseconds since 1970, for scripts that ask the browser's clock."""
    return {"frozen_now_ms": int(TODAY.timestamp() * 1000)}
