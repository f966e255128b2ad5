#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include <pharos/wire/message.hpp>

namespace pharos::node {

/// The output of one process, in two files: when the newer file is full it takes the place of the older one. Bytes are
/// counted from the first one that was ever written.
/// Owned by Logs and by its work on other threads (shared). Any thread; all but kept() may wait for a disk and for each
/// other. Nothing here reports an error: text that the disk does not take is left out, and the next append() writes
/// down how much is missing. The destructor leaves the files.
class LogFile {
 public:
  explicit LogFile(std::string path) : path_{std::move(path)} {}

  /// Appends text. Of all that was written the log keeps the last bytes: at most `most`, and at least half of that. If
  /// the newer file cannot be renamed, everything that was written before is lost, without a note.
  void append(std::string_view text, std::uint64_t most);
  /// Reads at most `most` bytes from byte `from` on, or from the first byte that is still there. The part has less
  /// text, or none, at the end of the log or if the files cannot be read.
  wire::LogPart read(std::uint64_t from, std::uint32_t most) const;
  /// Removes the older file; if there is none, everything that was written so far.
  void drop_older();
  /// Removes both files. A later append() makes them anew.
  void remove();

  /// Bytes that the files have; does not wait.
  std::uint64_t kept() const { return kept_.load(); }

 private:
  std::string older_path() const { return path_ + ".1"; }
  void turn_over();
  void forget();
  std::size_t write(std::string_view text);
  void note_kept() { kept_.store(end_ - begin_); }

  const std::string path_;
  mutable std::mutex mutex_;
  std::uint64_t begin_ = 0;     // first byte of the older file
  std::uint64_t turned_ = 0;    // first byte of the newer file
  std::uint64_t end_ = 0;       // end of the newer file
  std::uint64_t left_out_ = 0;  // bytes that were left out since the last one that was written
  std::atomic<std::uint64_t> kept_ = 0;
};

/// Reads a part of a file. Returns what could be read; empty if the file cannot be read. Any thread; may wait for a
/// disk.
std::string read_part(const std::string& path, std::uint64_t from, std::uint64_t most);

}  // namespace pharos::node
