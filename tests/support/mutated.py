"""What a broken program or a bad link makes of a good message: a few other bytes, or other values at any depth."""


def in_bytes(rng, raw):
    data = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = bytes(rng.choices(b'{}[]":,\\0\xff\x80e-+.u', k=rng.randint(1, 3)))
        elif kind == 2:
            del data[at : at + rng.randint(1, 8)]
        elif kind == 3:
            data[at:at] = data[at : at + rng.randint(1, 40)]
        elif kind == 4:
            data[at:at] = b"[" * rng.choice((3, 50, 2_000))
        else:
            data = data[:at] or data
    return bytes(data)


def at_any_depth(rng, value, other, changes_most=3):
    """Put other values into lists and maps, in place, at any depth; ``other`` gives one for what is there."""
    for _ in range(rng.randint(0, changes_most)):
        at = value
        while isinstance(at, dict | list) and at:
            key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.2:
                at[key] = other(at[key])
                break
            at = at[key]
    return value
