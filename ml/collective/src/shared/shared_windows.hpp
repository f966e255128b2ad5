#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

#include "shared/meeting.hpp"
#include "shared/shared_memory.hpp"

namespace pharos::ml {

/// Memory that the ranks of a machine have allocated together. A window is one such allocation, with one piece for each
/// rank. Windows are numbered from 1, by the same numbers on all ranks. Owned by SharedBackend, which makes all ranks
/// call the functions below in the same order, and tells all ranks of an error that one of them returns. The destructor
/// unmaps all memory that `threads` does not get, also what has not been freed; other processes keep their own
/// mappings. One thread.
class SharedWindows {
 public:
  /// This rank's piece of a window, before the other ranks have mapped it.
  struct Piece {
    Fd file;
    Mapping mapping;
    std::size_t mapped = 0;       ///< The size of the mapping.
    std::byte* memory = nullptr;  ///< Where the piece begins in the mapping.
    std::size_t bytes = 0;        ///< The size of the piece.

    Meeting::MemoryHandle handle() const;
  };

  /// `threads` gets the mappings that other threads may still read, at free() after a failure and in the destructor;
  /// null if ranks are processes. `meeting` outlives the object.
  SharedWindows(Meeting& meeting, std::shared_ptr<ThreadMemory> threads);
  SharedWindows(SharedWindows&&) = delete;
  ~SharedWindows();

  /// Makes this rank's piece; the error of errno, such as kExhausted.
  Result<Piece> make_piece(std::size_t bytes) const;
  /// Maps the pieces of all ranks. All ranks have published theirs. Other ranks map this rank's piece by its file, so
  /// the caller keeps `piece` until all ranks have returned from this. Takes the mapping out of `piece`. kActorDied if
  /// a rank has died, else the failure of all ranks or the error of errno; no window is added then.
  Result<void> add_window(Piece& piece);
  /// At rank 0: makes the file of memory that all ranks use together.
  Result<Fd> make_file_for_all(std::size_t bytes) const;
  /// Maps that file, which rank 0 has published. An equal part of it is charged to each rank's process. `file` is the
  /// file at rank 0, which keeps it open until all ranks have returned from this; the other ranks have none.
  Result<std::byte*> map_for_all(const Fd& file, std::size_t bytes);
  /// Gives back a piece, or memory for all ranks. Ignores memory that it does not know. No operation may be using it.
  void free(std::byte* memory);

  /// Returns the number of the window in which these bytes of this rank lie; 0 if there is none.
  std::uint32_t window_of(const std::byte* memory, std::size_t bytes) const;
  /// By rank: where its piece is in this process.
  std::span<std::byte* const> places(std::uint32_t window) const { return windows_.at(window).places; }

 private:
  struct Window {
    std::vector<Mapping> mappings;
    std::vector<std::byte*> places;
    std::size_t bytes = 0;
  };

  Result<Fd> open_memory_of(std::uint32_t other) const;

  Meeting& meeting_;
  const std::shared_ptr<ThreadMemory> threads_;
  std::map<std::uint32_t, Window> windows_;
  std::uint32_t last_window_ = 0;
  std::map<const std::byte*, Mapping> for_all_;
};

}  // namespace pharos::ml
