#pragma once

namespace pharos::process {

/// Lets this process open as many descriptors as the system allows it: a node has several for each worker.
void raise_descriptor_limit();

/// When memory runs out, the kernel takes this process before daemons and drivers.
void offer_to_out_of_memory_killer();

/// Signals as a program expects them at its start: nothing blocked, nothing ignored but what was ignored for it.
void reset_signals();

}  // namespace pharos::process
