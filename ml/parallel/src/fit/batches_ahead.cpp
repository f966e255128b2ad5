#include "fit/batches_ahead.hpp"

#include <utility>

namespace pharos::ml {

std::optional<Batch> BatchesAhead::next() {
  if (copies_ == nullptr) return loader_.next();
  given_ = ahead_ ? *std::exchange(ahead_, std::nullopt) : take();
  if (given_->threw) std::rethrow_exception(given_->threw);
  ahead_ = take();
  return std::exchange(given_->batch, std::nullopt);
}

BatchesAhead::Taken BatchesAhead::take() {
  Taken taken;
  try {
    taken.batch = loader_.next();
    if (taken.batch) copies_->begin(*taken.batch);
  } catch (...) {
    taken.threw = std::current_exception();
  }
  taken.position = loader_.position();
  taken.at_end = loader_.at_end();
  return taken;
}

void BatchesAhead::seek(Position position) {
  given_.reset();
  ahead_.reset();
  loader_.seek(position);
}

}  // namespace pharos::ml
