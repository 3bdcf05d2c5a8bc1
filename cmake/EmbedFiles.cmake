# Run by moec_embed() at build time: writes OUTPUT, a C++ file that defines FUNCTION over the files of LIST in FOLDER.

file(STRINGS ${LIST} files)
string(REGEX MATCH "^(.*)::([^:]*)$" matched "${FUNCTION}")
set(namespace ${CMAKE_MATCH_1})
set(function ${CMAKE_MATCH_2})

set(entries "")
foreach(file IN LISTS files)
  if(file STREQUAL "")
    continue()
  endif()
  file(READ "${FOLDER}/${file}" text)
  string(FIND "${text}" ")moec_embedded\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${FOLDER}/${file} contains the delimiter of the embedded text")
  endif()
  string(APPEND entries "    {\"${file}\", R\"moec_embedded(${text})moec_embedded\"},\n")
endforeach()

file(WRITE "${OUTPUT}" "// Generated from ${FOLDER}. Do not edit.
#include \"compiler/schedule/Embedded.h\"

namespace ${namespace} {
static const EmbeddedFile kFiles[] = {
${entries}    {\"\", \"\"}};
std::span<const EmbeddedFile> ${function}() {
  return {kFiles, std::size(kFiles) - 1};
}
} // namespace ${namespace}
")
