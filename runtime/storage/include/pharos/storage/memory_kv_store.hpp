#pragma once

#include <memory>

#include <pharos/storage/kv_store.hpp>

namespace pharos::storage {

/// Makes a store in memory for tests; the caller owns the store. Any thread. Its content is lost with the object. No
/// call waits, so that no call exceeds its deadline; the only error is kCancelled, before the call has done anything.
/// Only the memory of the process limits the store.
std::unique_ptr<KvStore> make_memory_kv_store();

}  // namespace pharos::storage
