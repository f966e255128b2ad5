#pragma once

#include "command.hpp"

namespace pharos::console {

// Each function adds the command of its name.

void add_drain(Commands& commands);
/// A daemon's keeper. Programs start it, not people, so --help does not list it.
void add_keeper(Commands& commands);
void add_list(Commands& commands);
void add_logs(Commands& commands);
void add_memory(Commands& commands);
void add_run(Commands& commands);
void add_stack(Commands& commands);
void add_start(Commands& commands);
void add_status(Commands& commands);
void add_stop(Commands& commands);
void add_token(Commands& commands);
/// `pharos tune show`, `best`, `export`, `resume` and `import`.
void add_tune(Commands& commands);

}  // namespace pharos::console
