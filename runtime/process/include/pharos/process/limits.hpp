#pragma once

namespace pharos::process {

/// Raises this process's limit of open descriptors to the maximum that the system allows, because a node needs several
/// for each worker. Does nothing if that fails.
void raise_descriptor_limit();

/// Makes the kernel kill this process before daemons and drivers when memory runs out. Does nothing if that fails.
void offer_to_out_of_memory_killer();

/// Returns whether this process ignores the signal, as it does SIGHUP under nohup.
bool ignores(int signal);

/// Sets signals to the state that a program expects at its start. No signal is blocked in the calling thread, and
/// SIGCHLD, SIGPIPE, SIGINT, SIGTERM, SIGHUP and SIGQUIT have their default action. For a process with one thread, such
/// as a child after a fork.
void reset_signals();

}  // namespace pharos::process
