#include "groups/group_handle.hpp"

#include <pharos/actors/exceptions.hpp>

namespace pharos {
namespace detail {

void GroupHandle::remove() {
  if (!removed_.exchange(true)) remove_();
}

}  // namespace detail

GroupId PlacementGroup::id() const {
  return handle_ == nullptr ? GroupId{} : handle_->id();
}
std::size_t PlacementGroup::size() const {
  return handle_ == nullptr ? 0 : handle_->size();
}
const Ref<std::vector<NodeId>>& PlacementGroup::nodes() const {
  if (handle_ == nullptr) throw InvalidArgument{Error{ErrorCode::kInvalidArgument, "this PlacementGroup is empty"}};
  return handle_->nodes();
}
void PlacementGroup::remove() const {
  if (handle_ != nullptr) handle_->remove();
}

}  // namespace pharos
