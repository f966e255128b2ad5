#include "status.hpp"

namespace pharos::storage {

Error to_error(const rocksdb::Status& failed, const std::string& attempted) {
  const std::string message = attempted + ": " + failed.ToString();
  // A call that waits for a failed compaction gets the reason only as text.
  const bool had_no_room = failed.IsIncomplete() && message.find("No space left on device") != std::string::npos;
  if (failed.IsNoSpace() || had_no_room) return {ErrorCode::kExhausted, message, "Free some space on that disk."};
  if (failed.IsCorruption() || failed.IsPathNotFound()) {
    return {ErrorCode::kCorrupt, message,
            "Look at the disk, and restore the folder from a copy; or move it away to start with an empty store."};
  }
  if (failed.IsMemoryLimit()) return {ErrorCode::kExhausted, message, "Give the process more memory."};
  if (failed.IsInvalidArgument() || failed.IsNotSupported()) {
    return {ErrorCode::kUnsupported, message, "Use a folder that this version of Pharos has made."};
  }
  if (failed.IsIOError()) return {ErrorCode::kUnavailable, message, "Look at the disk."};
  return {ErrorCode::kInternal, message, "Please report this."};
}

}  // namespace pharos::storage
