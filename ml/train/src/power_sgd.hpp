#pragma once

#include <cstdint>
#include <memory>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/ddp.hpp>

#include "exchange.hpp"

namespace pharos::ml {

/// `steps`: how many have been reduced before.
std::unique_ptr<Exchange> make_power_sgd(Communicator& ranks, Buckets& buckets, const PowerSgd& options,
                                         std::uint64_t steps);

}  // namespace pharos::ml
