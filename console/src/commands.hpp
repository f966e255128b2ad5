#pragma once

#include "command.hpp"

namespace pharos::console {

// Each function adds the command of its name. main() calls each once, before Commands::run(). A command keeps its
// options as long as `commands` lives. It runs on the thread of run() and blocks until it is done. If it fails, it
// prints the reason on standard error and returns 1, or 2 if the arguments make no sense.

void add_completion(Commands& commands);
void add_doctor(Commands& commands);
void add_drain(Commands& commands);
/// A daemon's keeper. Programs start it, not people, so --help does not list it.
void add_keeper(Commands& commands);
/// `pharos job submit`, `list`, `status` and `logs`. These commands are programs of the cluster.
void add_job(Commands& commands);
void add_list(Commands& commands);
void add_logs(Commands& commands);
void add_memory(Commands& commands);
void add_new(Commands& commands);
/// Prints docs/commands.md from the same descriptions as --help. For those who change commands, so --help does not list
/// it.
void add_reference(Commands& commands);
/// `pharos run` becomes the program that it names. If this fails, it returns 2, 125, 126 or 127, as `env` does.
void add_run(Commands& commands);
/// `pharos setup-torch` becomes tools/setup_torch.
void add_setup_torch(Commands& commands);
void add_stack(Commands& commands);
/// Without --block, `pharos start` forks a process that keeps the daemon, and returns when the daemon has started.
void add_start(Commands& commands);
void add_status(Commands& commands);
void add_stop(Commands& commands);
void add_summary(Commands& commands);
void add_token(Commands& commands);
/// `pharos tune show`, `best`, `export`, `resume` and `import`. `resume` becomes the program that began the sweep.
void add_tune(Commands& commands);

}  // namespace pharos::console
