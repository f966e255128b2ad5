#pragma once

#include <memory>

#include <pharos/storage/kv_store.hpp>

namespace pharos::storage {

/// Makes a store in memory, which is lost with the object. For embedded clusters without a folder, for tests, and for
/// the simulator, which keeps the store when it restarts the head. No call waits, so that no call exceeds its deadline;
/// the only error is kCancelled. Only the memory of the process limits it.
std::unique_ptr<KvStore> make_memory_kv_store();

}  // namespace pharos::storage
