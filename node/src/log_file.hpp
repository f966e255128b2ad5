#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include <pharos/wire/message.hpp>

namespace pharos::node {

/// What a process has written, in two files that are turned over: when the newer one is full it takes the older one's
/// place. Bytes are counted from the first that was ever written.
/// Any thread; append() and read() may wait for a disk. What the disk has no room for is left out, and the text says
/// how much.
class LogFile {
 public:
  explicit LogFile(std::string path) : path_{std::move(path)} {}

  /// Of all that was written at most `most` bytes are kept, and at least half of that.
  void append(std::string_view text, std::uint64_t most);
  /// From that byte on, or from the first that is still there.
  wire::LogPart read(std::uint64_t from, std::uint32_t most) const;
  /// The older file, or what there is.
  void drop_older();
  void remove();

  std::uint64_t kept() const { return kept_.load(); }

 private:
  std::string older_path() const { return path_ + ".1"; }
  void turn_over();
  void forget();
  std::size_t write(std::string_view text);
  void note_kept() { kept_.store(end_ - begin_); }

  const std::string path_;
  mutable std::mutex mutex_;
  std::uint64_t begin_ = 0;   // of the older file
  std::uint64_t turned_ = 0;  // where the newer one goes on
  std::uint64_t end_ = 0;
  std::uint64_t left_out_ = 0;  // since the last that was written
  std::atomic<std::uint64_t> kept_ = 0;
};

/// A part of a file; none of its bytes when it cannot be read.
std::string read_part(const std::string& path, std::uint64_t from, std::uint64_t most);

}  // namespace pharos::node
