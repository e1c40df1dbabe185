"""A hub that is slow to read one of its languages, as one that is downloaded."""

from threading import Event


def hold_reading(monkeypatch, hub, held):
    """Let reading a language wait; returns events: reading has begun, and it may go on."""
    begun, go_on, read = Event(), Event(), hub.read

    def slow_read(code, **options):
        if code == held:
            begun.set()
            assert go_on.wait(60)
        return read(code, **options)

    monkeypatch.setattr(hub, "read", slow_read)
    return begun, go_on
