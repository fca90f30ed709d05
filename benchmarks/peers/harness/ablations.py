"""Tributary without one of its choices at a time, by configuration alone, under the loads of the servers' part."""
from harness.server_process import Tributary
from harness.servers import Servers

# name -> settings. A server that knows a key no longer, or not yet, does not start, and the results say so with its message.
VARIANTS = {
    "default": [],
    "no-drop": ["schedule.drop_late=false"],
    "one-lane": ["lanes.count=1"],
    "fixed-window": ["schedule.text.max_wait_millis=5", "schedule.image.max_wait_millis=5"],
    "fifo-token-budget": ["schedule.batching=fifo"],
    "fixed-window-padded": ["schedule.batching=fifo_padded", "schedule.text.max_wait_millis=5", "schedule.text.max_items=32",
                            "schedule.text.max_units=8192", "schedule.drop_late=false"],
}


class Ablations(Servers):
    def makers(self):
        return {name: lambda n=name, s=settings: Tributary(n, self.context, s) for name, settings in VARIANTS.items()}

    def searched(self):
        return [name for name in ("text-mixed",) if self.context.wanted_workload(name)]
