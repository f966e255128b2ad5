# Makes the targets pharos_torch_cpu, pharos_torch_c10 and pharos_torch_cuda of the libtorch that tools/setup has unpacked.

include(PharosTorchTargets)

set(PHAROS_TORCH_DIR ${PROJECT_SOURCE_DIR}/third_party/libtorch CACHE PATH "A folder with libtorch's include and lib")

pharos_torch_version(${PHAROS_TORCH_DIR} PHAROS_TORCH_VERSION)
set(torch_found OFF)
if(PHAROS_TORCH_VERSION)
  set(torch_found ON)
endif()
pharos_part(TORCH FOUND ${torch_found} DETAIL "libtorch ${PHAROS_TORCH_VERSION}"
            MISSING "${PHAROS_TORCH_DIR} has no libtorch: run tools/setup, or set PHAROS_TORCH_DIR")

if(PHAROS_HAS_TORCH)
  pharos_add_torch(pharos_torch_cpu pharos_torch_c10 ${PHAROS_TORCH_DIR})
  pharos_add_torch_cuda(pharos_torch_cuda pharos_torch_cpu ${PHAROS_TORCH_DIR})
endif()
