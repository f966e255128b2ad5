#pragma once

#include <functional>

namespace pharos::ml {

/// Call it inside of a backward. Calls `then` once when the outermost backward on this thread has ended, even if this
/// function was called in an inner backward that a node of the outer one has begun (see recompute.hpp). Calls
/// `otherwise` instead if the backward ends with an exception, and in addition if `then` throws.
void at_end_of_backward(std::function<void()> then, std::function<void()> otherwise);

}  // namespace pharos::ml
