#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <pharos/actors/ref.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/strategy.hpp>
#include <pharos/wire/id_codec.hpp>

namespace pharos {

namespace detail {
class GroupHandle;
}

/// Resources of one node, for actors that share them. The same options as an actor has.
struct Bundle {
  double cpus = 0;
  double gpus = 0;
  ByteCount memory{};
  std::map<std::string, double> resources{};
  std::map<std::string, std::string> labels{};
  NodeId node{};
};

struct GroupOptions {
  std::string name{};  ///< for messages and lists
  std::vector<Bundle> bundles{};
  Strategy strategy = Strategy::kPack;
};

/// Resources that a program has set aside, all together, for actors that are made with `.group`. They wait in order,
/// behind nobody who came later; what no cluster like this one could ever give is refused, with numbers. When a node is
/// lost, its bundles get another place, and actors that may restart do so there.
/// A value; the last one of it gone, and the last actor that was made with it let go of, the resources are free.
class PHAROS_API PlacementGroup {
 public:
  PlacementGroup() = default;
  explicit PlacementGroup(std::shared_ptr<detail::GroupHandle> handle) : handle_{std::move(handle)} {}

  explicit operator bool() const { return handle_ != nullptr; }
  GroupId id() const;
  std::size_t size() const;
  /// On which node each bundle is, once all have their place: `group.nodes().get()` waits for that.
  const Ref<std::vector<NodeId>>& nodes() const;
  /// Gives the resources back when the actors that run in it have ended; those do not restart.
  void remove() const;

  const std::shared_ptr<detail::GroupHandle>& handle() const { return handle_; }

 private:
  std::shared_ptr<detail::GroupHandle> handle_;
};

}  // namespace pharos
