# The device side: JIT and cache, CUDA driver, launcher, C ABI, moec-run. Included by runtime/CMakeLists.txt.
#
#   moec_runtime          all of it, static (libmoec.so and the tools link it)
#   moec-runtime-shared   libmoec-runtime.so: the C ABI of moec/moec.h and nothing else
#   moec-run              runs, checks, times and prebuilds packages
#
# No CUDA header and no CUDA library is needed to build: both are opened at run time.

set(MOEC_NVRTC_PATH "" CACHE FILEPATH "A libnvrtc.so to try after the environment's and before the toolkits'")

add_library(moec_runtime STATIC
  jit/BuildId.cpp
  jit/Cache.cpp
  jit/CompilePool.cpp
  jit/FindNvrtc.cpp
  jit/Nvrtc.cpp
  jit/Recipe.cpp
  device/CudaDriver.cpp
  device/DeviceInfo.cpp
  launch/Constants.cpp
  launch/CudaCode.cpp
  launch/TensorMaps.cpp
  CApi.cpp
  CApiQueries.cpp
  Context.cpp
  Layer.cpp
  Package.cpp)
set_source_files_properties(jit/FindNvrtc.cpp PROPERTIES
  COMPILE_DEFINITIONS "MOEC_NVRTC_HINT=\"${MOEC_NVRTC_PATH}\"")
target_link_libraries(moec_runtime PUBLIC moec_host moec_package moec_support ${CMAKE_DL_LIBS} Threads::Threads)

# libmoec-runtime.so: every object file, so that no function of the C ABI is missing; the version script hides the rest.
add_library(moec-runtime-shared SHARED ${CMAKE_CURRENT_SOURCE_DIR}/runtime-shared.c)
set_target_properties(moec-runtime-shared PROPERTIES
  OUTPUT_NAME moec-runtime
  LINKER_LANGUAGE CXX
  LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/exports.map")
target_link_libraries(moec-runtime-shared PRIVATE
  -Wl,--whole-archive moec_runtime -Wl,--no-whole-archive)
target_link_options(moec-runtime-shared PRIVATE
  -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/exports.map
  -static-libstdc++ -static-libgcc)

# moec-run checks against the reference, which belongs to the tests.
find_package(CLI11 REQUIRED)
add_executable(moec-run
  tools/moec-run.cpp
  tools/run/Data.cpp
  tools/run/Judge.cpp
  tools/run/Machine.cpp
  tools/run/Options.cpp
  tools/run/Report.cpp
  tools/run/Session.cpp)
target_link_libraries(moec-run PRIVATE moec_runtime moec_reference CLI11::CLI11)
target_link_options(moec-run PRIVATE -static-libstdc++ -static-libgcc)
