#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <pharos/actors/ref.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/id.hpp>
#include <pharos/wire/id_codec.hpp>
#include <pharos/wire/strategy.hpp>

namespace pharos {

namespace detail {
class GroupHandle;
/// A null handle is a PlacementGroup that refers to none. decode_placement_group() also returns null if the bytes are
/// no group, or if they are decoded outside of a worker and are no result; the decoder has failed then.
PHAROS_API void encode_placement_group(const std::shared_ptr<GroupHandle>& handle, Encoder& to);
PHAROS_API std::shared_ptr<GroupHandle> decode_placement_group(Decoder& from);
}  // namespace detail

/// Resources of one node, for actors that share them. A value. The fields mean the same as in ActorOptions.
struct Bundle {
  double cpus = 0;
  double gpus = 0;
  ByteCount memory{};
  std::map<std::string, double> resources{};
  std::map<std::string, std::string> labels{};
  NodeId node{};
};

/// The options of Runtime::reserve(). A value. A name or an amount that makes no sense makes reserve() throw
/// InvalidArgument; a wrong number of bundles is the error of PlacementGroup::nodes().
struct GroupOptions {
  std::string name{};             ///< shown in messages and lists; at most 256 bytes
  std::vector<Bundle> bundles{};  ///< 1 to 4096 bundles
  Strategy strategy = Strategy::kPack;
  /// If the nodes of the cluster could never have these resources: how long the group waits for nodes that join. With 0
  /// nodes() throws InvalidArgument at once.
  Duration wait_for_nodes{};
};

/// Resources that a program has set aside, all of them at once, for actors and tasks that are made with `.group`. A
/// handle: copies refer to the same group. Any thread may use it. A default-constructed one is empty: id() and size()
/// are 0, and remove() does nothing.
/// A group whose resources are not free waits, and nobody who came later gets what is set aside for it. When a node is
/// lost, its bundles get a place on another node, and actors that may restart do so there.
/// Failure: the Ref of nodes() throws InvalidArgument, with numbers, if the cluster could never have these resources;
/// Cancelled if the group is removed before it has a place; RuntimeStopped if the Runtime ends before that.
/// End: by remove(); by cancel() of nodes(), as long as that Ref is not ready; with the program; or when the last copy
/// is gone, this process has let go of the last actor that it made with the group, and its last task there has ended.
/// The resources are then free, as remove() says. Sent: a group may be an argument or a result; it travels once its
/// bundles have places, and the receiver's nodes() are those that it had then. The group then belongs to all who have
/// it: it ends by remove() of any of them, or with the program, and no longer with the last copy.
class PHAROS_API PlacementGroup {
 public:
  PlacementGroup() = default;
  explicit PlacementGroup(std::shared_ptr<detail::GroupHandle> handle) : handle_{std::move(handle)} {}

  explicit operator bool() const { return handle_ != nullptr; }
  GroupId id() const;
  std::size_t size() const;
  /// The node of each bundle, once all bundles have a place: `group.nodes().get()` waits for that. Throws
  /// InvalidArgument itself if this refers to no group.
  const Ref<std::vector<NodeId>>& nodes() const;
  /// Gives the group up. Its resources are free when the actors and tasks that run in it have ended. The actors do not
  /// restart, and the calls of actors that wait for a place in it throw ActorDied; the Refs of tasks that have not
  /// begun throw NotFound. Does not wait. Does nothing the second time, and after the end of the Runtime.
  void remove() const;

  const std::shared_ptr<detail::GroupHandle>& handle() const { return handle_; }

 private:
  std::shared_ptr<detail::GroupHandle> handle_;
};

template <>
struct Codec<PlacementGroup> {
  static void encode(const PlacementGroup& group, Encoder& to) { detail::encode_placement_group(group.handle(), to); }
  static PlacementGroup decode(Decoder& from) { return PlacementGroup{detail::decode_placement_group(from)}; }
};

}  // namespace pharos
