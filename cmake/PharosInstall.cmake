# Rules for `cmake --install`, and for the Debian packages that CPack makes of the same. What is installed: libpharos.so,
# libpharos_ml.so, libpharos_nccl.so and libpharos_cuda.so (those that were built), the start object, the pharos
# executable and the library that it loads for its records, the public headers, and the package that
# find_package(pharos CONFIG) reads. Each rule names its Debian package as the COMPONENT.

include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/pharos)

# The components of find_package beside pharos::pharos.
set(pharos_components "")

# pharos_install_headers(<Debian package> <module> …): installs the headers of these modules and of the modules in their
# DEPS, because public headers include them; those that another call has installed are left out.
set(modules_with_headers "")
function(pharos_install_headers package)
  set(to_install ${ARGN})
  while(to_install)
    list(POP_FRONT to_install module)
    if(module MATCHES "^pharos_" AND NOT module MATCHES "^pharos_torch" AND NOT module IN_LIST modules_with_headers)
      list(APPEND modules_with_headers ${module})
      get_target_property(folder ${module} SOURCE_DIR)
      install(DIRECTORY ${folder}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT ${package}
              FILES_MATCHING PATTERN "*.hpp")
      get_target_property(needed ${module} INTERFACE_LINK_LIBRARIES)
      list(APPEND to_install ${needed})
    endif()
  endwhile()
  set(modules_with_headers ${modules_with_headers} PARENT_SCOPE)
endfunction()

# pharos_install_libraries(<Debian package> <its -dev package> <library> …): links for linkers go to the second. The
# soname has the minor version, because before 1.0 a new minor version may break programs. The other libraries find
# libpharos.so beside them, and find libtorch and CUDA by the program's path.
function(pharos_install_libraries package dev_package)
  set_target_properties(${ARGN} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH "\$ORIGIN")
  install(TARGETS ${ARGN} LIBRARY COMPONENT ${package} NAMELINK_COMPONENT ${dev_package})
endfunction()

pharos_install_libraries(pharos libpharos-dev pharos pharos_rocksdb)
pharos_install_headers(libpharos-dev pharos_actors pharos_checkpoint pharos_collective pharos_data pharos_reports
                       pharos_trainer pharos_tune pharos_xgboost)
if(PHAROS_HAS_TORCH)
  list(APPEND pharos_components ml)
  pharos_install_libraries(libpharos-ml libpharos-ml-dev pharos_ml)
  pharos_install_headers(libpharos-ml-dev pharos_parallel pharos_models)
endif()
if(PHAROS_HAS_NCCL)
  list(APPEND pharos_components nccl)
  pharos_install_libraries(libpharos-ml libpharos-ml-dev pharos_with_nccl)
  pharos_install_headers(libpharos-ml-dev pharos_nccl)
endif()
if(PHAROS_HAS_TORCH AND PHAROS_HAS_CUDA AND CUDAToolkit_NVCC_EXECUTABLE)
  pharos_install_libraries(libpharos-ml libpharos-ml-dev pharos_with_cuda)
endif()

if(PHAROS_HAS_TESTING)
  list(APPEND pharos_components testing)
  pharos_install_libraries(libpharos-testing libpharos-testing pharos_with_testing)
  pharos_install_headers(libpharos-testing pharos_testing)
endif()

set_target_properties(pharos_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS pharos_cli COMPONENT pharos)
install(FILES ${PROJECT_BINARY_DIR}/console/pharos.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME pharos COMPONENT pharos)
install(FILES $<TARGET_OBJECTS:pharos_start> DESTINATION ${CMAKE_INSTALL_LIBDIR}/pharos RENAME start.o
        COMPONENT libpharos-dev)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/setup_torch DESTINATION ${CMAKE_INSTALL_DATADIR}/pharos COMPONENT pharos)
install(FILES ${PROJECT_SOURCE_DIR}/tools/libtorch.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/pharos COMPONENT pharos)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT pharos)

# ---- For find_package

set(pharos_components_text "none")
if(pharos_components)
  list(JOIN pharos_components ", " pharos_components_text)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/pharosConfig.cmake.in ${PROJECT_BINARY_DIR}/pharosConfig.cmake
  INSTALL_DESTINATION ${package_folder}
  PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pharosConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pharosConfig.cmake ${PROJECT_BINARY_DIR}/pharosConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT libpharos-dev)
foreach(component IN LISTS pharos_components)
  set(its_package libpharos-ml-dev)
  if(component STREQUAL "testing")
    set(its_package libpharos-testing)
  endif()
  configure_file(${CMAKE_CURRENT_LIST_DIR}/pharos-${component}.cmake.in
                 ${PROJECT_BINARY_DIR}/pharos-${component}.cmake @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/pharos-${component}.cmake DESTINATION ${package_folder}
          COMPONENT ${its_package})
endforeach()
if(PHAROS_HAS_TORCH)
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/PharosTorchTargets.cmake DESTINATION ${package_folder}
          COMPONENT libpharos-ml-dev)
endif()

# ---- Debian packages: cpack --config build/release/CPackConfig.cmake

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The Pharos developers")
set(CPACK_PACKAGE_CONTACT "The Pharos developers <developers@pharos.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# dpkg finds the packages of the libraries that ours load. libtorch, CUDA and NCCL are in no package.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
if(PHAROS_HAS_TORCH)
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PHAROS_TORCH_DIR}/lib)
endif()

# pharos_debian_package(<name> <section> <what it is> DEPENDS <package> …): our packages that it needs, in this version.
function(pharos_debian_package name section what)
  cmake_parse_arguments(PARSE_ARGV 3 its "" "" "DEPENDS")
  string(TOUPPER ${name} upper)
  set(depends "")
  foreach(each IN LISTS its_DEPENDS)
    list(APPEND depends "${each} (= ${PROJECT_VERSION})")
  endforeach()
  list(JOIN depends ", " depends)
  foreach(setting "PACKAGE_NAME;${name}" "PACKAGE_SECTION;${section}" "PACKAGE_DEPENDS;${depends}" "DESCRIPTION;${what}")
    list(POP_FRONT setting what_is_set)
    set(CPACK_DEBIAN_${upper}_${what_is_set} "${setting}" PARENT_SCOPE)
  endforeach()
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${what}" PARENT_SCOPE)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${name} PARENT_SCOPE)
endfunction()
pharos_debian_package(pharos science "The runtime: what programs load, and the pharos executable.")
pharos_debian_package(libpharos-dev libdevel "Headers and CMake package, to build programs." DEPENDS pharos)
set(CPACK_DEBIAN_LIBPHAROS-DEV_PACKAGE_RECOMMENDS "g++, cmake (>= 3.25)")
if(PHAROS_HAS_TESTING)
  pharos_debian_package(libpharos-testing libdevel "Simulated clusters, for tests of programs." DEPENDS libpharos-dev)
endif()
if(PHAROS_HAS_TORCH OR PHAROS_HAS_NCCL)
  pharos_debian_package(libpharos-ml science "Training. libtorch is not in it: pharos setup-torch fetches it." DEPENDS pharos)
  pharos_debian_package(libpharos-ml-dev libdevel "Headers and CMake package, to build programs that train."
                        DEPENDS libpharos-dev libpharos-ml)
endif()
include(CPack)
