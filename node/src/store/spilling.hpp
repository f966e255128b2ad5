#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <pharos/async/executor.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/error.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/spill_file.hpp>

#include "store/node_store.hpp"
#include "store/store_work.hpp"

namespace pharos::node {

/// Takes objects out of memory when memory is short, and reads them back. An object goes to disk, unless it can be
/// pulled from another node again. Its copy on disk stays when it comes back, so that the next time nothing has to be
/// written.
/// After an error of the disk, the disk is left alone for a second; the object stays in memory, and copies of objects
/// that are in memory are dropped to make room on the disk.
/// Owned by StoreService; on the node's strand. Reading and writing run by StoreWork, which outlives this object; after
/// the destructor no callback runs.
class Spilling {
 public:
  using Place = object_store::Place;
  using Body = object_store::StoreBook::Body;
  struct Settings {
    std::string folder;                           ///< name of the disk's folder, for messages
    std::function<Result<Fd>()> make_file;        ///< makes the file for objects; empty: objects stay in memory
    std::function<bool(const Place&)> elsewhere;  ///< returns whether another node has the object in this place
  };
  /// Callbacks to the owner, on the strand.
  struct Events {
    std::function<void()> left;    ///< an object has left memory, or a process has called it back
    std::function<void()> failed;  ///< an object could not be written, and stays in memory
  };

  Spilling(async::Executor& executor, std::shared_ptr<NodeStore> store, StoreWork& work, Settings settings,
           Events events);

  /// Begins to take objects with `bytes` of memory out, those first that were not read for the longest time. Returns
  /// false if fewer bytes can go, or none because there is no disk or it is left alone.
  bool spill(std::uint64_t bytes);
  /// Takes objects out if more than 80 % of the memory is lent, before a request has to wait for memory.
  void spill_early();
  /// Memory of objects on their way out.
  std::uint64_t leaving_bytes() const { return leaving_bytes_; }
  /// Why the last attempt to use the disk has failed; nullopt if it has not.
  const std::optional<Error>& trouble() const { return trouble_; }

  bool on_disk(const Place& place) const { return copies_.contains(place); }
  /// Reads an object that is on disk (on_disk()) back to its memory. The copy on disk stays. `done` runs later, with
  /// kCorrupt if the copy is damaged, or an error of the disk or of the memory.
  void read_back(const Body& body, async::UniqueFunction<void(Result<void>)> done);
  /// Ends objects that are out and that no process uses any more, and drops their copies on disk. Also looks at objects
  /// in memory that have a copy.
  void end_unused();
  /// The number of copies on disk.
  std::size_t copies() const { return copies_.size(); }

 private:
  using Kept = object_store::SpillFile::Kept;
  struct Left {
    std::optional<Kept> kept;  // the copy on disk; nullopt: another node has the object
    bool is_out = false;       // false: it was called back, or has ended
  };

  bool open_disk();
  void write(const Body& body);
  void take_out(const Body& body, const std::optional<Kept>& kept, Result<void> written);
  void has_left(const Body& body, Result<Left> left);
  void has_not_left(const Body& body, Error why);
  /// Drops the copies on disk for which `which` is true, except those that are in use at the moment. Returns how many.
  template <class Condition>
  std::size_t drop_copies(Condition which);

  async::Executor& executor_;
  const std::shared_ptr<NodeStore> store_;
  StoreWork& work_;
  const Settings settings_;
  const Events events_;
  std::uint64_t leaving_bytes_ = 0;
  std::map<Place, Kept> copies_;  // copies on disk of objects that are out or in memory
  std::set<Place> leaving_;       // objects on their way out
  std::set<Place> reading_;       // objects that are being read from disk
  std::optional<Error> trouble_;
  TimePoint again_{};        // after an error of the disk: the disk is not used before this time
  TimePoint early_again_{};  // after too few objects could go: spill_early() does nothing before this time
};

}  // namespace pharos::node
