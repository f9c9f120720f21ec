"""``windward agent``: publish this machine's load until told to stop."""

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from schemas.messages.sample import Message, Sample, encode
from schemas.process.connections import KafkaSettings
from schemas.process.logs import configure_logs, quieten
from schemas.process.settings import SettingsError, load_settings
from schemas.process.signals import Stop
from schemas.process.version import product_version
from streams.agent.collectors import COLLECTORS
from streams.agent.collectors.cpu import Cpu, CpuTimes
from streams.agent.collectors.disk import Disk
from streams.agent.collectors.memory import Memory
from streams.agent.identity import Identity, read_identity
from streams.agent.instances.meter import Meter
from streams.agent.instances.report import Reporter
from streams.agent.producer import connect
from streams.agent.publisher import Publisher
from streams.agent.rises import NoReadingError
from streams.agent.sampling.backlog import Record
from streams.agent.sampling.sampler import Sampler
from streams.agent.sampling.schedule import Schedule, phase_s
from streams.agent.settings import AgentSettings, check_machine

log = logging.getLogger("windward.agent")

SENDING_S = 10.0
"""More than the time in which a record is acknowledged. So long after two intervals without one, it is not ready."""


def notify(environ: Mapping[str, str], state: str) -> None:
    """Send a state such as ``READY=1``, ``WATCHDOG=1`` or ``STOPPING=1`` to the socket that systemd named, if any.

    A failure is only logged.
    """
    if not (address := environ.get("NOTIFY_SOCKET", "")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
    except OSError as error:
        log.debug("agent.notify.failed", extra={"values": {"error": str(error)}})


class MachineTotals:
    """The machine's own CPU and memory over the interval of a report, as its samples count them (ZFS's cache, too).

    Remembers the CPU counters of the last call.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._before: CpuTimes | None = None

    def read(self, elapsed_s: float) -> tuple[float | None, float | None]:
        """Return the cores busy since the last call and the bytes in use; None where not known."""
        now = Cpu().read()
        try:
            cpu = Cpu().parse(self._before, now, elapsed_s)
        except NoReadingError:
            cpu = None
        self._before = now
        memory = self._memory.parse(None, self._memory.read(), elapsed_s)
        return cpu.usage if cpu else None, memory.usage if memory else None


SETTINGS = AgentSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the agent; return 0 after a clean stop, 1 when ``--once`` could not deliver its sample."""
    identity = read_identity(environ)
    settings = load_settings(AgentSettings, "agent", argv, environ)
    begin(settings, hush=settings.once)
    sampler = build_sampler(settings, identity)
    if settings.check_config:
        return 0
    stop = stop_event()
    publisher = None
    if not settings.dry_run:
        client_id = f"windward-agent-{sampler.machine}"
        publisher = Publisher(
            partial(connect, settings, client_id),
            settings.names.samples_topic,
            settings.backlog_records,
            counts=sampler.counts,
        )
        publisher.start()
    if settings.metrics_port:
        from streams.agent.metrics import serve

        silent_s, host = 2 * settings.interval_s + SENDING_S, settings.metrics_host
        serve(sampler.counts, product_version(), host, settings.metrics_port, silent_s, fleet=settings.prefix)
    notify(environ, "READY=1")
    source = "machine" if settings.machine else identity.source
    started = {
        "machine": sampler.machine,
        "named_by": source,
        "phase_s": sampler.schedule.phase_s,
        "interval_s": settings.interval_s,
    }
    log.info("agent.started", extra={"values": started})

    single = settings.once or settings.dry_run

    def emit(message: Message) -> bool:
        """Publish one message; return False when no further one is needed."""
        if publisher:
            publisher.publish([Record(sampler.machine.encode(), encode(message))])
        if single and isinstance(message, Sample):
            print(encode(message).decode(), flush=True)  # noqa: T201
            return False
        return True

    alive = partial(notify, environ, "WATCHDOG=1") if "WATCHDOG_USEC" in environ else lambda: None
    reporter = None
    if settings.instances:
        found = replace(settings.found, disk_exclude=Disk.configured(settings).exclude)
        meter = Meter(found, MachineTotals(Memory.configured(settings)).read, sampler.counts.instance_troubles)
        reporter = Reporter(meter, settings.instances_interval_s, sampler.counts)
    run(sampler, Clock(stop), emit, settings.facts_interval_s, alive, reporter)
    notify(environ, "STOPPING=1")
    left = publisher.close(settings.flush_s) if publisher else 0
    if settings.once and left:
        log.error("agent.sample.undelivered", extra={"values": {"kafka": settings.kafka}})
    values = {"samples": sampler.counts.samples, **sampler.counts.results(left)}
    log.log(logging.WARNING if left else logging.INFO, "agent.stopped", extra={"values": values})
    return 1 if settings.once and left else 0


def build_sampler(settings: AgentSettings, identity: Identity) -> Sampler:
    """Return the sampler of this machine; raises SettingsError when it has no usable name.

    A dry run publishes nothing, so it accepts the random name of a container, too.
    """
    machine = settings.machine or identity.machine
    if identity.problem and not settings.machine and not (settings.dry_run and machine):
        raise SettingsError(identity.problem)
    try:
        check_machine(machine)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    return Sampler(
        machine=machine,
        boot=int(time.time()),
        schedule=Schedule(settings.interval_s, settings.reading_s, phase_s(machine, settings.interval_s)),
        collectors=[kind.configured(settings) for kind in COLLECTORS],
        capacities=settings.capacities,
        labels=settings.labels,
        agent_version=product_version(),
        host_id=identity.host_id,
    )


def begin(settings: KafkaSettings, *, hush: bool = False) -> None:
    """Configure the logs; refuse certificate files that cannot be used, now and not at the first connection."""
    configure_logs(settings.log_level, settings.log_format)
    quieten("kafka", hush=hush)
    settings.kafka_python_arguments()


def stop_event() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


class Clock:
    """The machine's clocks; ``stop`` ends a wait. Tests have one of their own."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def epoch_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait so long; return True as soon as the process is to stop."""
        return self._stop.wait(max(seconds, 0.0))


def run(
    sampler: Sampler,
    clock: Clock,
    emit: Callable[[Message], bool],
    facts_interval_s: float,
    alive: Callable[[], None] = lambda: None,
    reporter: Reporter | None = None,
) -> None:
    """Read at every tick and emit samples and facts until the clock says stop or ``emit`` returns False.

    ``reporter`` adds the usage of the machine's instances to samples; None: samples have none. The facts follow the
    first reading after a start, so that they have the capacities, and then at their own interval.
    """
    sampler.read(clock.epoch_s(), clock.monotonic_s())
    if reporter:
        reporter.start(clock.monotonic_s())
    next_facts_s = clock.monotonic_s()
    while not clock.wait(sampler.schedule.until_next_tick_s(clock.epoch_s())):
        messages: list[Message] = []
        now_s = clock.monotonic_s()
        samples: list[Sample] = sampler.read(clock.epoch_s(), now_s)
        if now_s >= next_facts_s:
            next_facts_s = now_s + facts_interval_s
            messages.append(sampler.facts(clock.epoch_s()))
        messages.extend(reporter.attach(sample, now_s) if reporter else sample for sample in samples)
        alive()
        wanted = [emit(message) for message in messages]
        if not all(wanted):
            return
