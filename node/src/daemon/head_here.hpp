#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <pharos/async/async.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/storage/kv_store.hpp>

#include "head/head.hpp"
#include "head/records.hpp"
#include "node/host.hpp"

namespace pharos::node {

/// The head of this process, and its records. A head that cannot write any more is replaced by one that is made from
/// what is durable; the nodes return to the new head as to another head. Attempts to replace the head are repeated
/// every half second until one succeeds or close() is called. What the failed head had not written is lost.
/// Owned by Membership; on its strand. The Host outlives it. End: close(); then the executor has to run what is posted
/// until closed() is true, and start() must have ended. Callbacks that use this object may be posted even then: the
/// executor must run them before the destructor or not at all.
class HeadHere {
 public:
  /// Opens the store of the records. It blocks, so it is not called on the strand.
  using OpenRecords = std::function<Result<std::unique_ptr<storage::KvStore>>()>;
  /// The node of this process.
  struct OwnNode {
    NodeId id;
    Head::NodeDescription description;
    /// Takes a message of the head. HeadHere posts this call to the executor: head and node hear each other only when
    /// the other's event is done.
    std::function<void(wire::Message message)> hear;
  };
  /// Callbacks to the owner. HeadHere calls them on the strand, and may do so until closed() is true.
  struct Events {
    std::function<void()> started;  ///< a head was started from the records
    std::function<void()> failed;   ///< the head is gone, and connections of nodes to it make no sense any more
  };

  /// Without `open_records` there is a head at once, and nothing outlives it. Otherwise start() makes it.
  HeadHere(async::Executor& executor, Host& host, OwnNode own_node, OpenRecords open_records, Events events);
  HeadHere(HeadHere&&) = delete;

  /// Starts the head from its records. Fails with the store's error if they cannot be opened or read, with kUnsupported
  /// if another version of Pharos has written them, and with kCancelled after close(). There is no second attempt.
  /// closed() does not wait for this coroutine; the caller joins it.
  async::Async<Result<void>> start();

  /// Returns nullptr while there is no head. The pointer is valid during the present event; later the head may have
  /// been replaced.
  Head* head() { return head_.get(); }
  const Head* head() const { return head_.get(); }
  /// Returns nullptr if nothing outlives the head, before the first head has started, and while the head is being
  /// replaced.
  const Records* records() const { return records_.get(); }
  /// Returns the head, or kUnavailable with the reason why there is none, for a node that wants to join it.
  Result<Head*> find();
  /// Posts a message of the own node to the head. The message is dropped while there is no head, or if the head is
  /// replaced before it hears the message; a question is refused if the last attempt to replace the head has failed.
  void tell(wire::Message message);

  void close();
  bool closed() const { return background_.size() == 0 && (records_ == nullptr || records_->closed()); }

 private:
  async::Async<Result<std::unique_ptr<storage::KvStore>>> open_records();
  async::Async<void> replace(Error why);
  Head::Tell tell_own_node();

  async::Executor& executor_;
  Host& host_;
  const OwnNode own_node_;
  const OpenRecords open_records_;
  const Events events_;
  std::unique_ptr<storage::KvStore> store_;  // null: nothing outlives the head
  std::unique_ptr<Records> records_;
  std::unique_ptr<Head> head_;
  std::uint64_t heads_ = 0;       // heads that were started here, one after the other
  std::optional<Error> trouble_;  // why the last attempt to replace the head has failed
  bool closing_ = false;
  async::AsyncGroup background_;
};

}  // namespace pharos::node
