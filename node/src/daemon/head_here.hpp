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
/// what is durable; its nodes return to it as to another head.
/// Owned by Membership; on its strand. End: close(); then the executor has to run what is posted until closed() is
/// true.
class HeadHere {
 public:
  /// Opens the store of the records. It blocks, so it is not called on the strand.
  using OpenRecords = std::function<Result<std::unique_ptr<storage::KvStore>>()>;
  /// The node of this process.
  struct OwnNode {
    NodeId id;
    Head::NodeDescription description;
    /// Takes a message of the head. It is posted: head and node hear each other only when the other's event is done.
    std::function<void(wire::Message message)> hear;
  };
  /// Callbacks to the owner.
  struct Events {
    std::function<void()> started;  ///< a head was started from the records
    std::function<void()> failed;   ///< the head is gone, and connections of nodes to it make no sense any more
  };

  /// Without `open_records` there is a head at once, and nothing outlives it. Otherwise start() makes it.
  HeadHere(async::Executor& executor, Host& host, OwnNode own_node, OpenRecords open_records, Events events);
  HeadHere(HeadHere&&) = delete;

  /// Starts the head from its records. Fails if they cannot be opened or read.
  static async::Async<Result<void>> start(HeadHere* self);

  /// nullptr while there is no head.
  Head* head() { return head_.get(); }
  const Head* head() const { return head_.get(); }
  /// nullptr if nothing outlives the head.
  const Records* records() const { return records_.get(); }
  /// Returns the head, or the reason why there is none, for a node that wants to join it.
  Result<Head*> find();
  /// Takes a message of the own node.
  void tell(wire::Message message);

  void close();
  bool closed() const { return background_.size() == 0 && (records_ == nullptr || records_->closed()); }

 private:
  static async::Async<Result<std::unique_ptr<storage::KvStore>>> open_records(HeadHere* self);
  static async::Async<void> replace(HeadHere* self, Error why);
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
