#pragma once

#include <pharos/wire/message.hpp>

namespace pharos::actors {

/// Prints what a worker wrote, each line with the worker's name and process before it, to the stream it was written to.
void print_worker_output(const wire::Output& output);

}  // namespace pharos::actors
