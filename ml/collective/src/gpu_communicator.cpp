#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/gpu_communicator.hpp>

namespace pharos::ml {

GpuCommunicator::GpuCommunicator(Communicator untyped) : untyped_{std::move(untyped)} {
  if (untyped_.is_on_gpu()) return;
  throw_error(Error{ErrorCode::kInvalidArgument, "the data of these ranks is in the memory of the host",
                    "Make the communicator with on_gpu()."});
}

}  // namespace pharos::ml
