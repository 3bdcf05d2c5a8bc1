# moec_registry(macro file names): the sources of this folder whose names begin with a small letter. `file` in the build's folder gets a line
# `macro(<stem>)` for each, and `names` the sources.
function(moec_registry macro file names)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} [a-z]*.cpp)
  set(lines "")
  foreach(source ${sources})
    string(REPLACE ".cpp" "" stem ${source})
    string(APPEND lines "${macro}(${stem})\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${file} CONTENT "${lines}" @ONLY)
  set(${names} ${sources} PARENT_SCOPE)
endfunction()
