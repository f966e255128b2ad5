# Makes targets for libtorch, in this tree and for programs that use an installed copy of Pharos. libtorch's own
# TorchConfig is not used, because it fails on a machine without CUDA. The targets here load no CUDA library from
# outside of libtorch's folder.

# pharos_torch_version(<folder> <variable>): sets the variable to the version of the libtorch in the folder, or to
# nothing if there is no libtorch.
function(pharos_torch_version folder variable)
  set(version "")
  if(EXISTS ${folder}/lib/libtorch_cpu.so AND EXISTS ${folder}/include/ATen/ATen.h)
    file(STRINGS ${folder}/include/torch/headeronly/version.h version
         REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
    list(TRANSFORM version REPLACE ".* " "")
    list(JOIN version "." version)
  endif()
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()

# pharos_add_torch(<cpu> <c10> <folder>): makes the imported targets <cpu>, which programs link, and <c10>.
function(pharos_add_torch cpu c10 folder)
  add_library(${c10} SHARED IMPORTED)
  set_target_properties(${c10} PROPERTIES
    IMPORTED_LOCATION ${folder}/lib/libc10.so
    INTERFACE_INCLUDE_DIRECTORIES "${folder}/include;${folder}/include/torch/csrc/api/include")

  add_library(${cpu} SHARED IMPORTED)
  set_target_properties(${cpu} PROPERTIES
    IMPORTED_LOCATION ${folder}/lib/libtorch_cpu.so
    INTERFACE_LINK_LIBRARIES ${c10}
    INTERFACE_COMPILE_DEFINITIONS NDEBUG)  # as libtorch was built: the layout of its classes depends on it
endfunction()

# pharos_add_torch_cuda(<cuda> <cpu> <folder>): makes the imported target <cuda>, libtorch's libraries for CUDA. NVIDIA's
# libraries that they need are only looked for when a program loads them.
function(pharos_add_torch_cuda cuda cpu folder)
  add_library(${cuda} SHARED IMPORTED)
  set_target_properties(${cuda} PROPERTIES
    IMPORTED_LOCATION ${folder}/lib/libtorch_cuda.so
    INTERFACE_LINK_LIBRARIES "${cpu};${folder}/lib/libc10_cuda.so")
endfunction()
