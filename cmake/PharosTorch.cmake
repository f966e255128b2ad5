# libtorch from the wheels that tools/setup unpacked. Targets of our own, never TorchConfig, which stops where there is
# no CUDA: pharos_torch_cpu, and with it pharos_torch_c10. They load without any CUDA library from outside the folder.

set(PHAROS_TORCH_DIR ${PROJECT_SOURCE_DIR}/third_party/libtorch CACHE PATH "A folder with libtorch's include and lib")

set(torch_found OFF)
if(EXISTS ${PHAROS_TORCH_DIR}/lib/libtorch_cpu.so AND EXISTS ${PHAROS_TORCH_DIR}/include/ATen/ATen.h)
  set(torch_found ON)
  file(STRINGS ${PHAROS_TORCH_DIR}/include/torch/headeronly/version.h torch_version
       REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
  list(TRANSFORM torch_version REPLACE ".* " "")
  list(JOIN torch_version "." torch_version)
endif()
pharos_part(TORCH FOUND ${torch_found} DETAIL "libtorch ${torch_version}"
            MISSING "${PHAROS_TORCH_DIR} has no libtorch: run tools/setup, or set PHAROS_TORCH_DIR")

if(PHAROS_HAS_TORCH)
  add_library(pharos_torch_c10 SHARED IMPORTED GLOBAL)
  set_target_properties(pharos_torch_c10 PROPERTIES
    IMPORTED_LOCATION ${PHAROS_TORCH_DIR}/lib/libc10.so
    INTERFACE_INCLUDE_DIRECTORIES
      "${PHAROS_TORCH_DIR}/include;${PHAROS_TORCH_DIR}/include/torch/csrc/api/include")

  add_library(pharos_torch_cpu SHARED IMPORTED GLOBAL)
  set_target_properties(pharos_torch_cpu PROPERTIES
    IMPORTED_LOCATION ${PHAROS_TORCH_DIR}/lib/libtorch_cpu.so
    INTERFACE_LINK_LIBRARIES pharos_torch_c10
    INTERFACE_COMPILE_DEFINITIONS NDEBUG)  # as libtorch was built: the layout of its classes depends on it
endif()
