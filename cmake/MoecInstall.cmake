# `cmake --install`: programs, libraries, headers, a CMake package and pkg-config files.
#
#   find_package(moec)                       moec::runtime, and moec::moec (compiler and runtime) where it is installed
#   find_package(moec COMPONENTS compiler)   needs moec::moec
#   pkg-config moec                          the same; moec-runtime: the runtime alone
#
# `cmake --install --component NAME` installs a part; without it all but `python`:
#
#   runtime    libmoec-runtime.so, moec-run, moec-nvrtc, moec-measure, headers of the runtime, the CMake package;
#              libmoec-emulator.so where the tests are built
#   compiler   libmoec.so, moec, moec-opt, headers of the compiler
#   python     libmoec.so as one file without links, libmoec-emulator.so, moec-run, moec-opt, moec-nvrtc and moec-measure, in
#              moec/, as a wheel has them
#
# The libraries have a SONAME with the version that the C ABI is compatible with: 0.1 for 0.1.x.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(abi_version ${PROJECT_VERSION_MAJOR})
if(abi_version EQUAL 0)
  set(abi_version 0.${PROJECT_VERSION_MINOR})
endif()
set(libraries moec-runtime-shared)
if(MOEC_BUILD_COMPILER)
  list(APPEND libraries moec-shared)
endif()
set_target_properties(${libraries} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${abi_version})
set_target_properties(moec-runtime-shared PROPERTIES EXPORT_NAME runtime)
target_include_directories(moec-runtime-shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(MOEC_BUILD_COMPILER)
  set_target_properties(moec-shared PROPERTIES EXPORT_NAME moec)
  target_include_directories(moec-shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/moec)
# install_part(component library program...): a part, and what other projects find it by.
function(install_part component library)
  install(TARGETS ${ARGN} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
  install(TARGETS ${library} EXPORT moec-${component}-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT ${component})
  install(EXPORT moec-${component}-targets NAMESPACE moec:: DESTINATION ${package_folder} COMPONENT ${component})
endfunction()
install_part(runtime moec-runtime-shared moec-run)
# Not CMAKE_INSTALL_LIBEXECDIR: runtime/jit/CompileWorker.cpp looks for it here, from bin/, lib/ and lib/<triplet>/.
install(TARGETS moec-nvrtc moec-measure RUNTIME DESTINATION libexec/moec COMPONENT runtime)
# runtime/cuda/CudaDriver.cpp looks for it beside its own binary and in lib/.
if(TARGET moec-emulator)
  install(TARGETS moec-emulator LIBRARY DESTINATION lib COMPONENT runtime)
  install(PROGRAMS $<TARGET_FILE:moec-emulator> DESTINATION moec COMPONENT python EXCLUDE_FROM_ALL)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/moec DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT runtime
  PATTERN compiler.h* EXCLUDE)
if(MOEC_BUILD_COMPILER)
  install_part(compiler moec-shared moec moec-opt)
  install(FILES ${PROJECT_SOURCE_DIR}/runtime/include/moec/compiler.h ${PROJECT_SOURCE_DIR}/runtime/include/moec/compiler.hpp
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/moec COMPONENT compiler)
  install(PROGRAMS $<TARGET_FILE:moec-shared> DESTINATION moec RENAME libmoec.so COMPONENT python EXCLUDE_FROM_ALL)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/moec DESTINATION moec/include COMPONENT python EXCLUDE_FROM_ALL)
  foreach(program moec-run moec-opt moec-nvrtc moec-measure)
    install(PROGRAMS $<TARGET_FILE:${program}> DESTINATION moec COMPONENT python EXCLUDE_FROM_ALL)
  endforeach()
endif()

configure_file(${CMAKE_CURRENT_LIST_DIR}/moecConfig.cmake ${PROJECT_BINARY_DIR}/package/moecConfig.cmake COPYONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/moecConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/moecConfig.cmake ${PROJECT_BINARY_DIR}/package/moecConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT runtime)

# Relative to their own folder, so that an installed tree can be moved.
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH to_prefix /${pkgconfig_folder} /)
foreach(library IN LISTS libraries)
  get_target_property(name ${library} OUTPUT_NAME)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package/${name}.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@to_prefix@
Name: @name@
Description: Mixture-of-Experts layers compiled for a GPU
Version: @PROJECT_VERSION@
Cflags: -I${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
Libs: -L${prefix}/@CMAKE_INSTALL_LIBDIR@ -l@name@
]])
  set(component compiler)
  if(library STREQUAL moec-runtime-shared)
    set(component runtime)
  endif()
  install(FILES ${PROJECT_BINARY_DIR}/package/${name}.pc DESTINATION ${pkgconfig_folder} COMPONENT ${component})
endforeach()
