"""The replayed time of a recording: its last part, or from one moment to another."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(text: str) -> float:
    """Return a moment as epoch s: ISO 8601, UTC where it names no zone, or epoch seconds.

    >>> moment("2026-11-22T09:00"), moment("2026-11-22 10:00+01:00"), moment("1795338000")
    (1795338000.0, 1795338000.0, 1795338000.0)

    Raises ValueError.
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            message = f"expected a time such as 2026-11-22T09:00 (UTC) or epoch seconds, got {text!r}"
            raise ValueError(message) from None
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    if not 0 <= seconds < 1e11:
        raise ValueError(f"expected epoch seconds, got {text!r}")
    return seconds


def between(extent: tuple[float, float], last_s: float | None, since: str, until: str) -> tuple[float, float]:
    """Return the two moments, by default those of the recording (``extent``); raises ValueError naming the setting.

    >>> between((0.0, 1e6), 3600.0, "", ""), between((0.0, 1e6), None, "5000", "1e4")
    ((996400.0, 1000000.0), (5000.0, 10000.0))
    """
    found = {"since": extent[0], "until": extent[1]}
    for name, text in (("since", since), ("until", until)):
        if text:
            try:
                found[name] = moment(text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    if last_s is not None:
        if since:
            raise ValueError("last: does not go together with since")
        found["since"] = found["until"] - last_s
    if found["since"] >= extent[1] or found["until"] <= extent[0]:
        name = "since" if found["since"] >= extent[1] else "until"
        first, last = (datetime.fromtimestamp(at, UTC).isoformat(timespec="minutes")[:16] for at in extent)
        raise ValueError(f"{name}: the recording is from {first} to {last} (UTC)")
    if found["until"] - found["since"] < 120:
        raise ValueError(f"until: expected two minutes at least after since, got {found['until'] - found['since']:g} s")
    return found["since"], found["until"]
