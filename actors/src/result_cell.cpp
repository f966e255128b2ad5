#include "result_cell.hpp"

namespace pharos::detail {

CellHandle::CellHandle(const CellHandle& other) : cell_{other.cell_} {
  if (cell_ != nullptr) cell_->retain();
}

void CellHandle::release() {
  cell_->release();
}

bool CellHandle::ready() const {
  return cell_ != nullptr && cell_->ready();
}

Result<std::span<const std::byte>> CellHandle::wait(Deadline deadline) const {
  if (cell_ == nullptr) return Error{ErrorCode::kInvalidArgument, "this Ref was moved from, and refers to nothing"};
  return cell_->wait(deadline);
}

}  // namespace pharos::detail
