#pragma once

#include <functional>
#include <memory>

namespace pharos::ml {

/// Inside of a backward: calls `then` when the outermost one on this thread has ended, also if it was called for in one
/// that a node of that has begun (checkpointing). When it ends with an exception, `then` is let go of without a call.
void at_end_of_backward(std::shared_ptr<const std::function<void()>> then);

}  // namespace pharos::ml
