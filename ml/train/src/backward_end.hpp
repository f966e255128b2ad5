#pragma once

#include <functional>

namespace pharos::ml {

/// Inside of a backward: calls `then` when the outermost one on this thread has ended, also if it was called for in one
/// that a node of that has begun (checkpointing). Calls `otherwise` when it ends with an exception, or `then` does.
void at_end_of_backward(std::function<void()> then, std::function<void()> otherwise);

}  // namespace pharos::ml
