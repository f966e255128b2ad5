#pragma once

#include <cstdint>
#include <memory>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/ddp_options.hpp>

#include "parallel/buckets.hpp"
#include "parallel/exchange.hpp"

namespace pharos::ml {

/// Makes the exchange of Wire::kPowerSgd. `steps`: the number of steps that have been reduced before. Throws
/// InvalidArgument if `options.rank` is 0. For the rest see Exchange and make_exchange(), which calls this.
std::unique_ptr<Exchange> make_power_sgd(Communicator& ranks, Buckets& buckets, const PowerSgd& options,
                                         std::uint64_t steps);

}  // namespace pharos::ml
