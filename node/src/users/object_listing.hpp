#pragma once

#include <pharos/wire/message.hpp>

#include "node/clients.hpp"
#include "node/site.hpp"
#include "store/store_service.hpp"

namespace pharos::node {

/// Lists, for users, what is in this node's object store. Owned by UserQuestions; on the node's strand. Uses the store
/// and the clients that were given.
class ObjectListing {
 public:
  ObjectListing(const Site& site, const StoreService& store, const Clients& clients)
      : site_{site}, store_{store}, clients_{clients} {}

  /// One row: how much memory and disk the objects take, in bytes. The capacity is 0 if nobody has used the store.
  wire::Rows sum_up() const;
  /// A row for each of the 1000 largest objects: where it is, which processes keep it, and where it comes from.
  wire::Rows list() const;

 private:
  const Site& site_;
  const StoreService& store_;
  const Clients& clients_;
};

}  // namespace pharos::node
