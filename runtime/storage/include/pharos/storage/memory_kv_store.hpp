#pragma once

#include <memory>

#include <pharos/storage/kv_store.hpp>

namespace pharos::storage {

/// A store that lasts as long as the object: for embedded clusters without a folder, tests and the simulator, which
/// keeps it while it restarts the head. No call waits, so none reaches its deadline. Bounds: memory.
std::unique_ptr<KvStore> make_memory_kv_store();

}  // namespace pharos::storage
