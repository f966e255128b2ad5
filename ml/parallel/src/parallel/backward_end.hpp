#pragma once

#include <functional>

namespace pharos::ml {

/// Call it inside of a backward. Calls `then` once when the outermost backward on this thread has ended, even if this
/// function was called in an inner backward that a node of the outer one has begun (see recompute.hpp). Calls
/// `otherwise` instead if the backward ends with an exception, and in addition if `then` throws; what `then` throws
/// comes out of backward(). Both run on the thread that runs the backward. The backward keeps the functions until one
/// has run, so they own what they use; `otherwise` must not throw. Ddp and Sharded call this. Outside of a backward
/// libtorch throws.
void at_end_of_backward(std::function<void()> then, std::function<void()> otherwise);

}  // namespace pharos::ml
