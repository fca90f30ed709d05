"""When calls are sent: drawn beforehand from a seed, so that every server gets the same load at the same times."""
import random

# Bursty arrivals: a Poisson process whose rate changes between two states of exponential length. A fifth of the time is
# busy; the mean rate is the one asked for.
BUSY_FACTOR = 2.5
BUSY_SECONDS = 0.1
CALM_SECONDS = 0.4
CALM_FACTOR = 1 - (BUSY_FACTOR - 1) * BUSY_SECONDS / CALM_SECONDS

KINDS = ("poisson", "bursty")


def send_times(kind, rate, seconds, seed):
    """Nanoseconds from the start, ascending, of calls at `rate` a second for `seconds`."""
    if kind not in KINDS:
        raise ValueError(f"arrivals are one of {', '.join(KINDS)}, not '{kind}'")
    if rate <= 0 or seconds <= 0:
        raise ValueError(f"rate and seconds must be > 0, are {rate} and {seconds}")
    # A string seeds the same in every Python; a tuple's hash need not.
    draw = random.Random(f"{kind} {seed}")
    times = []
    now = 0.0
    busy = False
    state_end = draw.expovariate(1 / CALM_SECONDS) if kind == "bursty" else float("inf")
    while True:
        factor = 1.0 if kind == "poisson" else BUSY_FACTOR if busy else CALM_FACTOR
        step = draw.expovariate(rate * factor)
        if now + step > state_end:  # the process has no memory: drawn anew from the change of state on
            now = state_end
            busy = not busy
            state_end = now + draw.expovariate(1 / (BUSY_SECONDS if busy else CALM_SECONDS))
            if now >= seconds:
                return times
            continue
        now += step
        if now >= seconds:
            return times
        times.append(int(now * 1e9))


def payload_order(count, payloads, seed):
    """Indices of the payloads of `count` calls: every payload in a seeded order, then again in another."""
    draw = random.Random(f"payloads {seed}")
    order = []
    while len(order) < count:
        block = list(range(payloads))
        draw.shuffle(block)
        order += block
    return order[:count]
