#pragma once

#include <cstdint>
#include <memory>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/ddp_options.hpp>

#include "parallel/buckets.hpp"
#include "parallel/exchange.hpp"

namespace pharos::ml {

/// Makes the implementation for `options.wire`. All ranks call it together: it may allocate memory of the communicator,
/// and throws what that throws. `steps`: the number of steps that have been reduced before.
std::unique_ptr<Exchange> make_exchange(Communicator& ranks, Buckets& buckets, const DdpOptions& options,
                                        std::uint64_t steps);

}  // namespace pharos::ml
