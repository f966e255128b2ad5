#include <pharos/async/executor.hpp>

namespace pharos::async {

Executor::~Executor() = default;

}  // namespace pharos::async
