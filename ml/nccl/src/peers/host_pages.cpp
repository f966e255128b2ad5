#include "peers/host_pages.hpp"

#include <optional>

#include "cuda_calls.hpp"

namespace pharos::ml {

Result<HostPages> HostPages::make(Communicator& host, std::size_t bytes) {
  std::optional<Buffer<std::byte>> memory;
  PHAROS_TRY_VOID(tried([&] { memory.emplace(host.allocate_for_all<std::byte>(bytes)); }));
  HostPages pages{*std::move(memory)};
  PHAROS_TRY_VOID(done(::cudaHostRegister(pages.memory_.data(), bytes, cudaHostRegisterMapped),
                       "giving the GPU memory of the host"));
  pages.host_ = pages.memory_.data();
  void* gpu = nullptr;
  PHAROS_TRY_VOID(done(::cudaHostGetDevicePointer(&gpu, pages.host_, 0), "giving the GPU memory of the host"));
  pages.gpu_ = static_cast<std::byte*>(gpu);
  return pages;
}

}  // namespace pharos::ml
