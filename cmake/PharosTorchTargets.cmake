# libtorch as targets of our own, in this tree and for those who use an installed copy. Never TorchConfig, which stops
# where there is no CUDA: these load without any CUDA library from outside the folder.

# pharos_torch_version(<folder> <variable>): sets the variable to the version of the libtorch in the folder, and to
# nothing where there is none.
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

# pharos_add_torch(<cpu> <c10> <folder>): makes the imported targets <cpu>, which is what programs link, and <c10>.
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
